"""Records as a run would write them, for tests of pages: made up, but of the right shape and size."""

from dataclasses import replace

import numpy as np

from reports.record import (
    ClassRow,
    Curve,
    Interval,
    Latency,
    LayerDistance,
    ModelCard,
    Provenance,
    Quality,
    Record,
    Size,
    Speed,
    StageCard,
    TaskCard,
)

LABELS = (
    "torch",
    "transformers",
    "sympy",
    "pandas",
    "matplotlib",
    "sqlalchemy",
    "networkx",
    "numpy",
    "huggingface_hub",
    "datasets",
)
SEEDS = (0, 1, 2)


def provenance() -> Provenance:
    return Provenance(
        command="python -m distill.run --student tiny,distil,albert --seeds 3",
        created="2026-03-14T09:26:53Z",
        config={
            "student": ["tiny", "distil", "albert"],
            "train": {"learning_rate": 5e-05, "batch": 32, "resume": None},
        },
        versions={"torch": "2.13.0", "transformers": "5.24.0"},
        git_commit="0123abcd+changes",
        cpu="Example CPU 8-core",
        instruction_sets=("avx2", "avx512f", "avx512_bf16"),
        cores=2,
        threads=2,
        memory_bytes=16_700_000_000,
        precision="bf16",
        seeds=SEEDS,
        wall_seconds=2473.4,
    )


def task(**changes: object) -> TaskCard:
    values: dict = {
        "name": "pydocs",
        "kind": "classification",
        "labels": LABELS,
        "metric": "accuracy",
        "higher_is_better": True,
        "rows": {"train": 12000, "select": 2000, "evaluate": 4000},
        "origins": {"train": "docstrings of 1,204 modules", "evaluate": "docstrings of modules not in train"},
        "majority": 0.2312,
        "fingerprint": "5f2c9a1be0774d13",
        "sources": {"torch": "2.13.0", "sympy": "1.14.0"},
        "notes": ("3,112 duplicates removed",),
    }
    return TaskCard(**(values | changes))


def quality(
    values: tuple[float, ...], teacher: float | None, *, metric: str = "accuracy", twin: float | None = None
) -> Quality:
    mean = float(np.mean(values))
    against = (
        None
        if teacher is None
        else Interval(difference=mean - teacher, low=mean - teacher - 0.008, high=mean - teacher + 0.008)
    )
    rows = tuple(
        ClassRow(
            label=label,
            n=400,
            precision=mean - 0.01 * (i % 3),
            recall=mean + 0.004 * (i % 4),
            f1=mean - 0.005 * (i % 5),
        )
        for i, label in enumerate(LABELS)
    )
    return Quality(
        split="evaluate",
        n=4000,
        metric=metric,
        value=mean,
        spread=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        by_seed={str(seed): value for seed, value in zip(SEEDS, values, strict=False)},
        metrics={metric: mean, "macro_f1": mean - 0.012, "matthews": mean - 0.06}
        if metric == "accuracy"
        else {metric: mean},
        retained=None if teacher is None else mean / teacher,
        against_teacher=against,
        mcnemar_p=None if teacher is None or metric != "accuracy" else 0.0173,
        per_class=rows if metric == "accuracy" else (),
        against_twin=None
        if twin is None
        else Interval(difference=mean - twin, low=mean - twin - 0.009, high=mean - twin + 0.009),
    )


def speed(factor: float, memory: int) -> Speed:
    """`factor` times a teacher of 2.6 ms at batch 1 x 16."""
    cells = [
        Latency(
            runtime="torch 2.13.0", precision="fp32", batch=batch, length=length, threads=threads,
            p50_ms=2.6 * factor * (batch * length / 16) ** 0.9 / (1 if batch == 1 else threads**0.8),
            p95_ms=3.1 * factor * (batch * length / 16) ** 0.9 / (1 if batch == 1 else threads**0.8), repeats=40,
        )
        for batch in (1, 32) for length in (16, 128) for threads in (1, 2)
    ]  # fmt: skip
    return Speed(latency=tuple(cells), peak_memory_bytes=memory)


def curves(
    stage: str, terms: tuple[str, ...], *, steps: int = 1100, metric: bool = True, seed: int = 0
) -> tuple[Curve, ...]:
    rng = np.random.default_rng(seed)
    at = tuple(range(11, steps + 1, 11))
    found = []
    total = np.zeros(len(at))
    for order, term in enumerate(terms, start=1):
        values = (2.0 / order) * np.exp(-np.linspace(0, 3, len(at))) + 0.05 / order + rng.uniform(0, 0.03, len(at))
        total += values
        found.append(Curve(stage=stage, name=term, steps=at, values=tuple(values.tolist())))
    found.append(Curve(stage=stage, name="loss", steps=at, values=tuple(total.tolist())))
    found.append(
        Curve(stage=stage, name="gradient norm", steps=at, values=tuple((1 + rng.uniform(0, 1, len(at))).tolist()))
    )
    rate = tuple((5e-5 * np.interp(at, (0, 110, steps), (0, 1, 0))).tolist())
    found.append(Curve(stage=stage, name="learning rate", steps=at, values=rate))
    if metric:
        checks = tuple(range(100, steps + 1, 100))
        found.append(
            Curve(
                stage=stage,
                name="selection metric",
                steps=checks,
                values=tuple(0.85 - 0.3 / (1 + i) for i in range(len(checks))),
            )
        )
    return tuple(found)


def stage(name: str, losses: dict[str, float], *, selected: int | None = 900) -> StageCard:
    return StageCard(
        name=name,
        description="the fine-tuned teacher, the training rows, hidden states and attention scores",
        losses=losses,
        steps=1100,
        epochs=3.0,
        seconds=192.4,
        examples=12000,
        learning_rate=5e-5,
        selected_step=selected,
    )


def distances(layers: int, teacher_layers: int, far: float) -> tuple[LayerDistance, ...]:
    return tuple(
        LayerDistance(
            student_layer=layer,
            teacher_layer=round(layer * teacher_layers / layers),
            hidden=far * (0.05 + 0.4 * layer / layers),
            attention=None if layer == 0 else far * 0.3 / layer,
        )
        for layer in range(layers + 1)
    )


def _teacher() -> ModelCard:
    return ModelCard(
        name="teacher",
        role="teacher",
        architecture={"family": "bert", "layers": 6, "hidden": 384, "heads": 12, "ffn": 1536},
        start="packaged MiniLM 6/384",
        quality=quality((0.861, 0.857, 0.859), None),
        size=Size(
            parameters=22_713_216, embedding_parameters=11_917_824, bytes_on_disk=90_868_376, flops=2_794_000_000
        ),
        speed=speed(1.0, 182_000_000),
        stages=(stage("fine-tuning", {"hard": 1.0}),),
        curves=curves("fine-tuning", ("hard",)),
        folder="teacher",
    )


def _tiny() -> tuple[ModelCard, ModelCard]:
    architecture = {"family": "bert", "layers": 4, "hidden": 312, "heads": 12, "ffn": 1200}
    size = Size(parameters=14_350_248, embedding_parameters=9_683_232, bytes_on_disk=57_412_488, flops=1_210_000_000)
    student = ModelCard(
        name="tiny",
        role="student",
        architecture=architecture,
        start="teacher layers 2, 3, 5, 6, channels with the largest mean activations",
        quality=quality((0.843, 0.838, 0.842), 0.859, twin=0.815),
        size=size,
        speed=speed(0.32, 121_000_000),
        stages=(
            stage("general", {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}, selected=None),
            stage("intermediate", {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}, selected=None),
            stage("prediction", {"soft": 0.5, "hard": 0.5}),
        ),
        curves=(
            *curves("general", ("embedding", "hidden", "attention"), metric=False, seed=1),
            *curves("intermediate", ("embedding", "hidden", "attention"), metric=False, seed=2),
            *curves("prediction", ("soft", "hard"), seed=3),
        ),
        layer_distances=distances(4, 6, 0.5),
        folder="tiny",
    )
    twin = ModelCard(
        name="tiny without distillation",
        role="twin",
        twin_of="tiny",
        architecture=architecture,
        start=student.start,
        quality=quality((0.818, 0.811, 0.816), 0.859),
        size=size,
        speed=speed(0.32, 121_000_000),
        stages=(stage("fine-tuning", {"hard": 1.0}),),
        curves=curves("fine-tuning", ("hard",), seed=4),
        layer_distances=distances(4, 6, 1.3),
    )
    return student, twin


def _distil() -> tuple[ModelCard, ModelCard]:
    architecture = {"family": "distilbert", "layers": 3, "hidden": 384, "heads": 12, "ffn": 1536}
    size = Size(parameters=17_241_600, embedding_parameters=11_917_056, bytes_on_disk=68_973_192, flops=1_397_000_000)
    student = ModelCard(
        name="distil",
        role="student",
        architecture=architecture,
        start="teacher layers 1, 3, 6",
        quality=quality((0.851, 0.849, 0.853), 0.859, twin=0.848),
        size=size,
        speed=speed(0.52, 140_000_000),
        stages=(stage("distillation", {"soft": 5.0, "hard": 2.0, "cosine": 1.0}),),
        curves=curves("distillation", ("soft", "hard", "cosine"), seed=5),
        layer_distances=distances(3, 6, 0.4),
        folder="distil",
    )
    twin = ModelCard(
        name="distil without distillation",
        role="twin",
        twin_of="distil",
        architecture=architecture,
        quality=quality((0.847, 0.850, 0.847), 0.859),
        size=size,
        speed=speed(0.52, 140_000_000),
    )
    return student, twin


def _albert() -> ModelCard:
    return ModelCard(
        name="albert",
        role="student",
        architecture={"family": "albert", "layers": 6, "hidden": 384, "heads": 12, "ffn": 1536, "embedding": 128},
        start="embeddings by truncated SVD of the teacher's, block from teacher layer 4",
        quality=quality((0.835, 0.829, 0.831), 0.859),
        size=Size(parameters=5_929_000, embedding_parameters=4_022_272, bytes_on_disk=23_716_400, flops=2_806_000_000),
        speed=speed(1.12, 158_000_000),
        stages=(stage("distillation", {"soft": 0.5, "hidden": 1.0}),),
        curves=curves("distillation", ("soft", "hidden"), seed=6),
        layer_distances=distances(6, 6, 0.8),
        folder="albert",
    )


def rich() -> Record:
    """Teacher, three students, two twins, TF-IDF; three seeds; everything measured."""
    baseline = ModelCard(name="TF-IDF + logistic regression", role="baseline", quality=quality((0.771,), 0.859))
    return Record(
        name="pydocs-tiny-distil-albert",
        provenance=provenance(),
        task=task(),
        models=(_teacher(), *_tiny(), *_distil(), _albert(), baseline),
        notes=("the teacher saw 12,000 rows",),
    )


def regression() -> Record:
    """An error metric, lower is better; one seed; a teacher and a student with its twin."""
    cards = (
        ModelCard(name="teacher", role="teacher", quality=quality((0.402,), None, metric="mse")),
        ModelCard(name="tiny", role="student", quality=quality((0.451,), 0.402, metric="mse", twin=0.538)),
        ModelCard(
            name="tiny without distillation",
            role="twin",
            twin_of="tiny",
            quality=quality((0.538,), 0.402, metric="mse"),
        ),
    )
    card = task(name="stsb", kind="regression", labels=(), metric="mse", higher_is_better=False, majority=2.1714)
    return Record(name="stsb-tiny", provenance=provenance(), task=card, models=cards)


def one_seed(record: Record) -> Record:
    """The same run, each model trained once."""

    def cut(card: ModelCard) -> ModelCard:
        kept = dict(list(card.quality.by_seed.items())[:1])
        return replace(card, quality=replace(card.quality, by_seed=kept, spread=None))

    return replace(record, models=tuple(cut(card) for card in record.models))


def minimal() -> Record:
    """Two models with one figure each; no size, speed, stage, curve, label or majority."""
    bare = task(name="bare", labels=(), rows={}, origins={}, majority=None, sources={}, notes=())
    models = (
        ModelCard(name="teacher", role="teacher", quality=quality((0.9,), None)),
        ModelCard(name="tiny", role="student", quality=quality((0.85,), 0.9)),
    )
    return Record(name="bare-tiny", provenance=provenance(), task=bare, models=models)


def busy(record: Record, *, p95: float = 26.0, repeats: int = 40) -> Record:
    """The same run, with every student's figures at batch 1 x 16 spoiled: a p95 of so many times the p50."""

    def spoil(card: ModelCard) -> ModelCard:
        if card.speed is None or card.role != "student":
            return card
        cells = tuple(
            replace(cell, p95_ms=p95 * cell.p50_ms, repeats=repeats) if (cell.batch, cell.length) == (1, 16) else cell
            for cell in card.speed.latency
        )
        return replace(card, speed=replace(card.speed, latency=cells))

    return replace(record, models=tuple(spoil(card) for card in record.models))


def small(n: int = 24, *, low: float = 0.0, high: float = 0.0) -> Record:
    """Few examples: tiny as good as its twin and the teacher, TF-IDF better than all of them."""
    same = Interval(difference=(low + high) / 2, low=low, high=high)
    ahead = Interval(difference=0.3333, low=0.167, high=0.542)

    def few(card: ModelCard, **changes: object) -> ModelCard:
        return replace(card, quality=replace(card.quality, n=n, **changes))  # type: ignore[arg-type]

    teacher, (tiny, twin) = _teacher(), _tiny()
    score = quality((0.875,), 0.542)
    cards = (
        few(teacher, value=0.542),
        few(tiny, value=0.542, retained=1.0, against_teacher=same, against_twin=same),
        few(replace(twin, speed=None), value=0.542, retained=1.0, against_teacher=same),
        few(ModelCard(name="TF-IDF + logistic regression", role="baseline", quality=score), against_teacher=ahead),
    )
    return Record(name="small-tiny", provenance=provenance(), task=task(labels=("bad", "good")), models=cards)
