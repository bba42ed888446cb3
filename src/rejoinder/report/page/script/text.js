/* Texts of others, raw: nothing in them is interpreted. Code and JSON get a frame and a tint, evidence and what was
   sought are marked, and characters that cannot be seen are shown. All parts of a text together are the text. */

/** @typedef {[number, number, string]} Mark from, to, and the class */

/** @param {string} text */
const sizeOfText = text => ({ characters: text.length, lines: text.split('\n').length });

/** Characters that are shown at once. */
const CUT = 20000;
/** Characters that are added by each press after that, in pieces of `CUT`: browsers are slow with one long line. */
const STEP = 200000;
/** Elements that are made for parts of one text; browsers are slow with more. */
const MOST_PARTS = 1000;
/** A text with more characters or lines is folded. */
const FOLD = { characters: 1400, lines: 24 };
/** The same for what tools answer, and for changes in a workspace. */
const FOLD_CODE = { characters: 8000, lines: 40 };

/* Controls, marks of direction, other characters without a shape, and halves of characters. Tab, new line and the two
   joiners, which writing needs, are not among them. */
const UNSEEN = /([\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029\u{e0100}-\u{e01ef}]|(?![\u200c\u200d\u0600-\u0605\u06dd\u08e2])\p{Cf}|\p{Cs})/u;

/** @param {string} part */
const codeOf = part => `U+${(part.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

/** A text of others where no elements can be: a choice, or an attribute. @param {string} text */
const inertText = text => text.split(UNSEEN).map((part, n) => n % 2 ? `[${codeOf(part)}]` : part).join('');

/** A short text of others. @param {string | null | undefined} text @returns {Child[]} */
function plain(text) {
  const parts = (text ?? '').split(UNSEEN);
  if (parts.length > MOST_PARTS) return [inertText(text ?? '')];
  return parts.map((part, n) => n % 2 ? h('span.ctl', { title: 'invisible character' }, codeOf(part)) : part);
}

/** The same in an element of its own, so that its direction does not reach others. @param {string} text */
const foreign = text => h('bdi', plain(text));

/** @param {string[]} texts */
const foreigns = texts => texts.map(text => h('span', foreign(text)));

/** @param {string[]} texts */
const notesView = texts => texts.map(text => h('p.note', plain(text)));

/**
 * A part of a text with its marks.
 *
 * @param {string} text
 * @param {number} at where in the whole it begins
 * @param {Mark[]} marks
 * @returns {Child[]}
 */
function marked(text, at, marks) {
  /** @type {[number, string, number][]} */
  const edges = [];
  for (const [from, to, css] of marks) {
    const start = Math.max(from - at, 0), end = Math.min(to - at, text.length);
    if (start < end) edges.push([start, css, 1], [end, css, -1]);
  }
  edges.sort((one, other) => one[0] - other[0]);
  /** @type {Child[]} */
  const parts = [];
  /** @type {Map<string, number>} */
  const active = new Map();
  let done = 0;
  /** @param {number} end */
  const put = end => {
    if (end === done) return;
    const css = [...active.keys()].filter(name => active.get(name)).join(' ');
    const inside = plain(text.slice(done, end));
    parts.push(css ? h(/hit|miss|found/.test(css) ? 'mark' : 'span', { class: css }, inside) : inside);
    done = end;
  };
  for (const [place, css, by] of edges) {
    put(place);
    active.set(css, (active.get(css) ?? 0) + by);
  }
  put(text.length);
  return parts;
}

/**
 * Python counts code points, JavaScript halves of them.
 *
 * @param {string} text
 * @param {[number, number][]} spans
 * @returns {[number, number][]}
 */
function inUnits(text, spans) {
  if (!/[\ud800-\udfff]/.test(text)) return spans;
  const wanted = [...new Set(spans.flat())].sort((one, other) => one - other);
  /** @type {Map<number, number>} */
  const found = new Map();
  let points = 0, units = 0;
  for (const place of wanted) {
    for (; points < place && units < text.length; points++) units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
    found.set(place, units);
  }
  return spans.map(([from, to]) => [found.get(from) ?? 0, found.get(to) ?? 0]);
}

/**
 * Where a text has what was sought.
 *
 * @param {string} text
 * @param {string} sought
 * @returns {Mark[]}
 */
function soughtIn(text, sought) {
  if (!sought.trim()) return [];
  const pattern = new RegExp(sought.trim().replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'giu');
  return [...text.slice(0, STEP).matchAll(pattern)].slice(0, MOST_PARTS).map(found => [found.index, found.index + found[0].length, 'found']);
}

/* Quotes and backticks stand in patterns by their numbers, so that each line can be read by itself. */
const TOKEN = /(\x22(?:[^\x22\\]|\\.)*\x22)(\s*:)?|[-\w.+]+/g;
const FENCE = /^\x60{3}([\w+-]*)[^\n]*\n[\s\S]*?(?:^\x60{3}[ \t]*$|$(?![\s\S]))/gm;

/** The colours of JSON. @param {string} text @param {number} at @returns {Mark[]} */
function tint(text, at) {
  /** @type {Mark[]} */
  const marks = [];
  for (const found of text.matchAll(TOKEN)) {
    const [token, quoted, colon] = found, start = at + found.index;
    if (quoted) marks.push([start, start + quoted.length, colon ? 'jk' : 'js']);
    else marks.push([start, start + token.length, 'jn']);
  }
  return marks;
}

/** @param {string} text */
function isJson(text) {
  if (!/^\s*[[{]/.test(text) || text.length > CUT) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} text
 * @param {boolean} isTinted
 * @param {number} at
 * @param {Mark[]} marks
 */
const codeView = (text, isTinted, at, marks) => h(isTinted ? 'pre.json' : 'pre', { tabindex: 0 }, marked(text, at, isTinted ? [...marks, ...tint(text, at)] : marks));

/**
 * @param {string} text
 * @param {Mark[]} marks
 * @returns {Child[]}
 */
function partsOfText(text, marks) {
  if (isJson(text)) return [codeView(text, true, 0, marks)];
  /** @type {Child[]} */
  const parts = [];
  let done = 0;
  /** @param {number} end */
  const prose = end => {
    const from = done + (done && text[done] === '\n' ? 1 : 0);
    while (end > from && text[end - 1] === '\n') end--;
    if (end > from) parts.push(h('div.txt', { dir: 'auto' }, marked(text.slice(from, end), from, marks)));
  };
  for (const fence of text.matchAll(FENCE)) {
    if (parts.length > MOST_PARTS / 5) break;
    prose(fence.index);
    parts.push(codeView(fence[0], fence[1] === 'json', fence.index, marks));
    done = fence.index + fence[0].length;
  }
  prose(text.length);
  return parts;
}

/** Does it look like the output of a test, or like a stack trace? Items of a list do not. @param {string} text */
const isLog = text => (text.slice(0, CUT).match(/^(?:[ \t]+\S|=|-(?! \S)|File \x22)/gm)?.length ?? 0) >= 3;

/**
 * JSON as lines, each as far to the right as it is deep. All that is left out is space between its parts.
 *
 * @param {string} text
 * @returns {Part[]}
 */
function linesOfJson(text) {
  /** @type {Part[]} */
  const lines = [];
  let deep = 0, isNew = true, before = '', done = 0;
  for (const { 0: token, index } of text.matchAll(/\x22(?:[^\x22\\]|\\.)*\x22|[{}[\],:]|[^\s{}[\],:\x22]+/g)) {
    const end = index + token.length, space = text.slice(done, index), isClose = /^[}\]]/.test(token), isOpen = /^[{[]/.test(token);
    if (isClose) deep--;
    if (isClose ? !/^[{[]/.test(before) : isNew) lines.push({ tag: 'div', deep, inside: [] });
    const { inside } = lines[lines.length - 1], last = inside.at(-1);
    if (before === ':' && !/^[ \t]+$/.test(space)) inside.push({ tag: 'span.gap', inside: [[index, end]] });
    else if (Array.isArray(last) && !space.includes('\n')) last[1] = end;
    else inside.push([index, end]);
    if (isOpen) deep++;
    isNew = isOpen || token === ',';
    before = token;
    done = end;
  }
  return lines;
}

/** Where to cut, without halving a character. @param {string} text @param {number} at */
const cutAt = (text, at) => at < text.length && /[\ud800-\udbff]/.test(text[at - 1] ?? '') ? at - 1 : Math.min(at, text.length);

/**
 * What is long is folded, and unfolded by a button.
 *
 * @param {HTMLElement} box
 * @param {typeof FOLD} size of all of it
 * @param {typeof FOLD} most
 * @param {() => number} [grow] adds more of the text, and says how many characters are left
 * @returns {Child}
 */
function folded(box, { characters, lines }, most, grow = () => 0) {
  const { classList } = box;
  let left = characters;
  if (characters <= most.characters && lines <= most.lines) return box;
  classList.add('clamp');
  const words = `Show all, ${group3(characters)} characters`;
  const more = buttonView(words, () => {
    const isFolded = !left && !classList.contains('clamp');
    if (!isFolded) left = grow();
    classList.toggle('clamp', isFolded);
    more.setAttribute('aria-expanded', String(!isFolded));
    more.textContent = isFolded ? words : left ? `Show more, ${group3(left)} characters are left` : 'Show less';
  }, { class: 'btn more', 'aria-expanded': 'false' });
  return [box, more];
}

/** Folded texts show where they begin to differ, or their first mark. */
function showMarks() {
  for (const box of document.querySelectorAll('.clamp')) {
    const mark = box.querySelector('.from') ?? box.querySelector('mark,.near');
    if (mark) box.scrollTop += areaOf(mark).bottom - areaOf(box).top - 190;
    box.classList.toggle('mid', box.scrollTop > 0);
    box.classList.toggle('end', box.scrollTop + box.clientHeight >= box.scrollHeight - 1);
  }
}

/**
 * A text of any length; of a very long one the beginning is in the page until more is asked for.
 *
 * @param {string} text
 * @param {Mark[]} [marks]
 * @param {typeof FOLD} [most]
 * @returns {Child}
 */
function textView(text, marks = [], most = FOLD) {
  if (!text) return h('p.none', 'Empty');
  let shown = cutAt(text, CUT);
  const box = h('div', partsOfText(text.slice(0, shown), marks)), grow = () => {
    for (let left = STEP; left > 0 && shown < text.length; left -= CUT) {
      const end = cutAt(text, shown + CUT);
      box.append(h('div.txt.far', { dir: 'auto' }, marked(text.slice(shown, end), shown, marks)));
      shown = end;
    }
    return text.length - shown;
  };
  const [from] = marks.find(([, , css]) => css === 'from') ?? marks[0] ?? [0];
  if (from >= shown) {
    grow();
    for (const far of box.querySelectorAll('.far')) far.classList.remove('far');
  }
  return folded(box, sizeOfText(text), most, grow);
}

/**
 * A line or a few of them, cut after a number of characters.
 *
 * @param {string} text
 * @param {number} most
 * @returns {Child}
 */
function shortView(text, most) {
  if (text.length <= most) return plain(text);
  const rest = h('span', '… ', buttonView('more', () => fill(rest, plain(text.slice(end))), { class: 'btn quiet small more', 'aria-expanded': 'false' }));
  const end = cutAt(text, most);
  return [plain(text.slice(0, end)), rest];
}
