"""The language of a text, by its script and by frequent words: enough to tell the languages that IFEval asks for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_SCRIPTS = {
    "ARABIC": "ar",
    "BENGALI": "bn",
    "CYRILLIC": "ru",
    "DEVANAGARI": "hi",
    "GREEK": "el",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "CJK": "zh",
}
"""The most frequent language of each script but the Latin one, by the first word of its characters' names."""
_LETTERS = {
    "ar": (("ur", "ٹڈڑںےھ"), ("fa", "پچژگک")),
    "ru": (("uk", "іїєґ"), ("ru", "ыэё"), ("bg", "ъ")),
}
"""Letters that tell languages of one script, in the order in which they are looked for."""
_WORDS = {
    "hi": "है और के में का की से को यह नहीं हैं था एक पर कि भी हूँ",
    "mr": "आहे आणि च्या मध्ये ते या हे नाही आहेत होते एक तर काही मी आम्ही",
    "ne": "छ र को मा हो लाई गर्न भने पनि छन् यो एक तपाईं हुन्छ छैन",
    "en": "the of and to in is that it for you with as are this on be not have was your i",
    "de": "der die und das ist nicht ein eine zu mit sie ich den von auf für dem es wir",
    "es": "el la de que y en los se las por un una con para es no del como",
    "fr": "le la les de et des un une est que pour dans en du il pas qui vous nous",
    "it": "il la di che e un una per non è con sono della le gli in si come anche",
    "pt": "o a de que e do da em um uma para com não os as se é por mais",
    "nl": "de het een van en is dat niet op te zijn voor met die ik aan je",
    "fi": "ja on ei se että oli hän mutta ovat kun niin myös tai olen minä joka voi ole",
    "sv": "och att det är en som på för av med den inte jag till har de om ett",
    "pl": "i w na nie się z do że to jest jak o za dla po przez od są",
    "id": "yang dan di untuk dengan dari ini tidak itu dalam adalah akan pada saya anda",
    "sw": "na ya wa ni kwa katika la za kuwa hii cha hiyo pia au yako sana kama si wewe",
    "tr": "ve bir bu için da de ile çok ne daha olarak gibi değil var ben sen",
    "vi": "là và của có không được cho một những các trong với này người đã để khi",
}
_DEVANAGARI = ("hi", "mr", "ne")


def find_language(text: str) -> str | None:
    """The code of the language, as in `en`; None for a text without letters."""
    names = (unicodedata.name(sign, "").split(" ", 1)[0] for sign in text if sign.isalpha())
    scripts = Counter(name for name in names if name)
    if not scripts:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts.total() // 20:
        return "ja"
    script = scripts.most_common(1)[0][0]
    if script == "DEVANAGARI":
        return _by_words(text, _DEVANAGARI)
    if script not in _SCRIPTS:
        return _by_words(text, tuple(code for code in _WORDS if code not in _DEVANAGARI))
    language = _SCRIPTS[script]
    told = (code for code, letters in _LETTERS.get(language, ()) if any(sign in text for sign in letters))
    return next(told, language)


def _by_words(text: str, codes: tuple[str, ...]) -> str:
    """The language with the largest share of frequent words; of equal ones, the first."""
    words = Counter(re.findall(r"[^\W\d_]+(?:[\u0900-\u097f]+)?", text.lower()) + text.lower().split())
    found = {code: sum(words[word] for word in _WORDS[code].split()) for code in codes}
    return max(codes, key=lambda code: found[code])
