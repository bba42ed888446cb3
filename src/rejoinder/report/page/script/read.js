/* Replies to read, or raw: one choice for all of them, remembered where the browser allows. Raw is the truth: a reply is
   shown raw where not all that is marked could be marked otherwise, and raw text is what is copied. */

const RAW_KEY = 'rejoinder-raw';
let isRaw = storedRaw();

function storedRaw() {
  try {
    return localStorage.getItem(RAW_KEY) === '1';
  } catch {
    return false;
  }
}

/** What draws a reply again. @type {WeakMap<Element, () => void>} */
const drawings = new WeakMap();
/** The source of a reply that is laid out, and the ranges of it that are shown. @type {WeakMap<Element, {text: string, leaves: Slice[]}>} */
const sources = new WeakMap();

/** @param {boolean} value @param {Element | null} [at] what stays where it is in the window */
function setRaw(value, at) {
  isRaw = value;
  try {
    localStorage.setItem(RAW_KEY, value ? '1' : '0');
  } catch {
    // then it is for this page alone
  }
  const replies = [...document.querySelectorAll('.reply')], fixed = at ?? replies.find(reply => areaOf(reply).bottom > 60), before = fixed && areaOf(fixed).top;
  for (const reply of replies) {
    const isOpen = reply.querySelector('.more[aria-expanded=true]');
    drawings.get(reply)?.();
    if (isOpen) /** @type {HTMLElement | null} */ (reply.querySelector('.more'))?.click();
  }
  showMarks();
  if (!fixed || before == null) return;
  (isPane() ? detailBox : window).scrollBy(0, areaOf(fixed).top - before);
  if (at) focusOn(at.querySelector('.modes [aria-pressed=true]'));
}

/** The choice, at a reply. @param {Element} reply */
const modesView = reply => h('span.modes', { role: 'group', 'aria-label': 'Show replies' },
  [false, true].map(value => buttonView(value ? 'Raw' : 'Read', () => setRaw(value, reply), { class: 'btn quiet small', 'aria-pressed': String(value === isRaw) })));

/**
 * A reply. Where it is not laid out although that was chosen, it says why.
 *
 * @param {string} text
 * @param {Mark[]} [marks]
 */
function replyTextView(text, marks = []) {
  const box = h('div.reply'), isData = isJson(text), pieces = isData ? [{ tag: 'pre.json', inside: linesOfJson(text) }] : markdownOf(text);
  const reason = !pieces || sizeOf(pieces) > MOST_PIECES ? 'Shown raw: it is too large to be laid out.' : !isPlaced(pieces, text, marks) && 'Shown raw: Read leaves out characters that are marked here.';
  const isSame = !!pieces && !reason && isOnlyProse(pieces);
  const draw = () => {
    const modes = !reason && !isSame && modesView(box);
    if (pieces && !reason && !isSame && !isRaw) fill(box, laidOut(pieces, text, marks, modes));
    else fill(box, reason && !isRaw && h('p.note', reason), modes, h(isSame && !isRaw ? 'div' : 'div.raw', textView(text, marks)));
  };
  drawings.set(box, draw);
  draw();
  return box;
}

/** @param {Piece[]} pieces @param {string} text @param {Mark[]} marks @param {Child} modes */
function laidOut(pieces, text, marks, modes) {
  const box = h('div.read', modes, piecesView(pieces, text, marks));
  sources.set(box, { text, leaves: leavesOf(pieces) });
  return folded(box, sizeOfText(text), FOLD);
}

/** @param {Piece[]} pieces @param {string} text @param {Mark[]} marks @param {boolean} [isTinted] @returns {Child[]} */
const piecesView = (pieces, text, marks, isTinted) => pieces.map(piece => {
  if (Array.isArray(piece)) {
    const [from, to] = piece, words = text.slice(from, to);
    return marked(words, from, isTinted ? [...marks, ...tint(words, from)] : marks);
  }
  const { tag, inside, deep = 0 } = piece;
  const element = h(/** @type {'div'} */ (tag), /^(pre|div\.scroll)/.test(tag) ? { tabindex: 0 } : !isTinted && /^(p|t[dh]|div)\b/.test(tag) ? { dir: 'auto' } : {}, piecesView(inside, text, marks, isTinted || tag === 'pre.json'));
  if (deep) element.style.paddingInlineStart = `${Math.min(deep, MOST_NESTED) * 2}ch`;
  return element;
});

/** Data that a tool gave, or its words as they are. @param {string} text */
function resultView(text) {
  const marks = soughtIn(text, queryNow().q), lines = isJson(text) ? linesOfJson(text) : [];
  if (!lines.length || sizeOf(lines) > MOST_PIECES) return textView(text, marks, FOLD_CODE);
  return folded(h('div', piecesView([{ tag: 'pre.json', inside: lines }], text, marks)), { characters: text.length, lines: lines.length }, FOLD_CODE);
}

/**
 * The place in the source of a place in what is laid out.
 *
 * @param {Element} box
 * @param {Node} node
 * @param {number} offset
 * @param {boolean} isEnd where characters that are not shown lie between two places: the first one
 */
function sourcePlace(box, node, offset, isEnd) {
  const { text, leaves } = sources.get(box) ?? { text: '', leaves: [] };
  const before = document.createRange();
  before.setStart(box, 0);
  before.setEnd(node, offset);
  const part = before.cloneContents();
  for (const unseen of part.querySelectorAll('.ctl')) unseen.textContent = String.fromCodePoint(parseInt(unseen.textContent?.slice(2) || '0', 16));
  part.querySelector('.modes')?.remove();
  let left = part.textContent?.length ?? 0;
  if (!left) return 0;
  for (const [n, [from, to]] of leaves.entries()) {
    if (left < to - from || isEnd && left === to - from && n < leaves.length - 1) return from + left;
    left -= to - from;
  }
  return text.length;
}

/** What is copied out of one reply is its source. @param {ClipboardEvent} event */
function copied(event) {
  const chosen = getSelection(), range = chosen?.rangeCount ? chosen.getRangeAt(0) : null, common = range?.commonAncestorContainer;
  const box = (common instanceof Element ? common : common?.parentElement)?.closest('.read');
  if (!range || !box || !event.clipboardData) return;
  const { text = '' } = sources.get(box) ?? {}, [from, to] = [sourcePlace(box, range.startContainer, range.startOffset, false), sourcePlace(box, range.endContainer, range.endOffset, true)];
  event.clipboardData.setData('text/plain', text.slice(from, to));
  event.preventDefault();
}

listen(document, 'copy', copied);
