"""English and Chinese words that carry grammar rather than content: augmentation leaves them as they are."""

_GRAMMAR = """
a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself yourselves he
him his himself she her hers herself it its itself they them their theirs themselves one oneself who whom whose
which what am is are was were be been being have has had having do does did doing done will would shall should can
could may might must ought need and or but nor so yet if then else than because while until unless although though
since whereas whether as of at by for with about against between into through during before after above below to
from up down in out on off over under onto upon within without toward towards per via among across along around
behind beside besides beyond near not no never none nothing nobody neither either both each every any some all few
more most other others another such own same only just too very also even still again further once here there where
when why how ever quite rather almost already always
"""
# What is left of don't, it's, we'll and their like when they are cut at the apostrophe.
_CLIPPED = """
s t d ll m re ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn shouldn couldn mustn needn ain shan
mightn cannot
"""

# Chinese is cut into characters.
_CHINESE = """
的 了 是 在 和 也 就 都 而 及 与 或 着 过 不 没 无 非 我 你 您 他 她 它 们 这 那 哪 谁 有 被 把
从 对 于 为 以 之 其 吗 呢 吧 啊
"""

STOP_WORDS = frozenset([*_GRAMMAR.split(), *_CLIPPED.split(), *_CHINESE.split()])
