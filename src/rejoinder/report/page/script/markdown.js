/* Markdown as a tree of elements with ranges of its source between them. What a tree shows is the source without some of
   its characters, in the order of the source: nothing is added, so a place in the source is a place in what is shown.
   All of it takes time in proportion to the text, and what is beyond the bounds has no tree. */

/** @typedef {[number, number]} Slice from, to: a range of the source */
/** @typedef {{tag: string, inside: Piece[], deep?: number}} Part an element; `deep` for how many steps to the right */
/** @typedef {Slice | Part} Piece */
/** @typedef {{from: number, to: number, end: number}} Line what a container left of it, and its new line at `end` */
/** @typedef {(text: string, lines: Line[], at: number, deep: number) => [Part[], number] | null} BlockReader a block, and the line behind it */

const MOST_READ = 50000;
const MOST_PIECES = 5000;
const MOST_NESTED = 20;
const MOST_MARKS = 2000;

class TooLarge extends Error {}

/** @param {string} text @returns {Piece[] | null} null beyond the bounds */
function markdownOf(text) {
  if (text.length > MOST_READ) return null;
  try {
    const parts = blocksOf(text, linesOf(text), 0);
    return sizeOf(parts) > MOST_PIECES ? null : parts;
  } catch (error) {
    if (error instanceof TooLarge) return null;
    throw error;
  }
}

/** @param {Piece[]} pieces @returns {number} */
const sizeOf = pieces => pieces.reduce((sum, piece) => sum + 1 + (Array.isArray(piece) ? 0 : sizeOf(piece.inside)), 0);

/** The ranges of a tree, in their order. @param {Piece[]} pieces @returns {Slice[]} */
const leavesOf = pieces => pieces.flatMap(piece => Array.isArray(piece) ? [piece] : leavesOf(piece.inside));

/** Does a tree change nothing but the space between paragraphs? @param {Piece[]} pieces */
const isOnlyProse = pieces => pieces.every(piece => !Array.isArray(piece) && piece.tag === 'p' && piece.inside.every(Array.isArray));

/**
 * Does a tree show everything that is marked? Space between words may be missing, other characters may not. Of a word
 * that another reply has not (`da`, `db`) a part is enough.
 *
 * @param {Piece[]} pieces
 * @param {string} text
 * @param {Mark[]} marks
 */
function isPlaced(pieces, text, marks) {
  const leaves = leavesOf(pieces);
  if (marks.length > MOST_MARKS) return false;
  return marks.every(([from, to, css]) => {
    const first = firstBehind(leaves, from);
    let done = from, isShown = false;
    if (/near|from/.test(css)) return true;
    if (/^d[ab]$/.test(css)) return first < leaves.length && leaves[first][0] < to;
    for (let n = first; n < leaves.length && leaves[n][0] < to && !text.slice(done, leaves[n][0]).trim(); n++) {
      done = Math.max(done, leaves[n][1]);
      isShown = true;
    }
    return isShown && !text.slice(done, to).trim();
  });
}

/** The first range that ends behind a place. @param {Slice[]} leaves @param {number} place */
function firstBehind(leaves, place) {
  let low = 0, high = leaves.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (leaves[middle][1] > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** @param {string} text @returns {Line[]} */
function linesOf(text) {
  /** @type {Line[]} */
  const lines = [];
  for (let from = 0; from <= text.length;) {
    const found = text.indexOf('\n', from), end = found < 0 ? text.length : found;
    lines.push({ from, to: end > from && text[end - 1] === '\r' ? end - 1 : end, end });
    from = end + 1;
  }
  return lines;
}

/** @param {string} text @param {Line | undefined} line */
const lineText = (text, line) => line ? text.slice(line.from, line.to) : '';

/** How far a line stands to the right; a tab is four steps. @param {string} words */
const indentOf = words => /^[ \t]*/.exec(words)?.[0].replace(/\t/g, '    ').length ?? 0;

/** A line without so many steps of its beginning. @param {string} text @param {Line} line @param {number} steps @returns {Line} */
function outdented(text, line, steps) {
  let { from } = line;
  for (; steps > 0 && from < line.to && /[ \t]/.test(text[from]); from++) steps -= text[from] === '\t' ? 4 : 1;
  return { ...line, from };
}

/* Backticks and quotes stand in patterns by their numbers, so that each line can be read by itself. */
const CODE_FENCE = /^ {0,3}(\x60{3,}|~{3,})([^\x60]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)[ \t]*/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^[ \t]*([-+*]|\d{1,9}[.)])(?=[ \t]|$)/;
const CELL_LINE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** Does a line end the paragraph before it? @param {string} words */
const isStart = words => QUOTE.test(words) || HEADING.test(words) || CODE_FENCE.test(words) || RULE.test(words) || /^ {0,3}(?:[-+*]|1[.)])[ \t]+\S/.test(words);

/** The readers of blocks; the last one takes any line. @type {BlockReader[]} */
const BLOCKS = [codeFence, codeLines, heading, rule, quote, list, table, paragraph];

/** @param {string} text @param {Line[]} lines @param {number} deep @returns {Part[]} */
function blocksOf(text, lines, deep) {
  if (deep > MOST_NESTED) throw new TooLarge();
  /** @type {Part[]} */
  const parts = [];
  for (let at = 0; at < lines.length;) {
    if (parts.length > MOST_PIECES) throw new TooLarge();
    if (!lineText(text, lines[at]).trim()) at++;
    else for (const read of BLOCKS) {
      const found = read(text, lines, at, deep);
      if (!found) continue;
      parts.push(...found[0]);
      at = found[1];
      break;
    }
  }
  return parts;
}

/** Lines as they are, without so many steps before each. @param {string} text @param {Line[]} lines @param {number} steps @returns {Part} */
function codeOfLines(text, lines, steps) {
  /** @type {Slice[]} */
  const inside = [];
  for (const line of lines) {
    const { from, to, end } = outdented(text, line, steps);
    inside.push([from, to], [end, end + 1]);
  }
  return { tag: 'pre', inside: joined(inside.slice(0, -1)) };
}

/** Ranges without those of no length, and those that touch as one. @param {Slice[]} slices @returns {Slice[]} */
function joined(slices) {
  /** @type {Slice[]} */
  const found = [];
  for (const [from, to] of slices) {
    const last = found.at(-1);
    if (last && last[1] === from) last[1] = to;
    else if (to > from) found.push([from, to]);
  }
  return found;
}

/** @type {BlockReader} */
function codeFence(text, lines, at) {
  const words = lineText(text, lines[at]), [, fence, info = ''] = CODE_FENCE.exec(words) ?? [];
  if (!fence) return null;
  let next = at + 1;
  const isEnd = () => {
    const close = lineText(text, lines[next]).trim();
    return close.length >= fence.length && close === fence[0].repeat(close.length);
  };
  while (next < lines.length && !isEnd()) next++;
  const code = codeOfLines(text, lines.slice(at + 1, next), indentOf(words)), name = info.trim(), { to } = lines[at];
  if (/^jsonc?$/.test(name)) code.tag = 'pre.json';
  const from = to - info.trimStart().length;
  return [[...name ? [{ tag: 'p.lang', inside: [/** @type {Slice} */ ([from, from + name.length])] }] : [], code], next + 1];
}

/** @type {BlockReader} */
function codeLines(text, lines, at) {
  let next = at, last = at;
  for (; next < lines.length; next++) {
    const words = lineText(text, lines[next]), isBlank = !words.trim();
    if (!isBlank && indentOf(words) < 4) break;
    if (!isBlank) last = next + 1;
  }
  return last > at ? [[codeOfLines(text, lines.slice(at, last), 4)], last] : null;
}

/** @type {BlockReader} */
function heading(text, lines, at) {
  const line = lines[at], words = lineText(text, line), found = HEADING.exec(words);
  if (!found) return null;
  const start = found[0].length, whole = words.trimEnd();
  let bare = whole.length;
  while (bare > start && words[bare - 1] === '#') bare--;
  const isClosed = bare === start || /[ \t]/.test(words[bare - 1]), length = isClosed ? words.slice(0, bare).trimEnd().length : whole.length;
  return [[{ tag: `div.hd.hd${found[1].length}`, inside: inlineOf(text, [{ ...line, from: line.from + start, to: line.from + Math.max(start, length) }]) }], at + 1];
}

/** @type {BlockReader} */
function rule(text, lines, at) {
  return RULE.test(lineText(text, lines[at])) ? [[{ tag: 'hr', inside: [] }], at + 1] : null;
}

/** @type {BlockReader} */
function quote(text, lines, at, deep) {
  /** @type {Line[]} */
  const inner = [];
  let next = at;
  for (; next < lines.length; next++) {
    const line = lines[next], words = lineText(text, line), found = QUOTE.exec(words);
    if (found) inner.push({ ...line, from: line.from + found[0].length });
    else if (next > at && words.trim() && !isStart(words) && lineText(text, inner.at(-1)).trim()) inner.push(line);
    else break;
  }
  return inner.length ? [[{ tag: 'blockquote', inside: blocksOf(text, inner, deep + 1) }], next] : null;
}

/** @type {BlockReader} */
function list(text, lines, at, deep) {
  /** @param {number} n */
  const markerAt = n => RULE.test(lineText(text, lines[n])) ? null : ITEM.exec(lineText(text, lines[n]));
  const kind = markerAt(at)?.[1].slice(-1);
  if (!kind) return null;
  /** @type {Part[]} */
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = markerAt(next);
    if (!found || found[1].slice(-1) !== kind) break;
    const line = lines[next], step = indentOf(found[0]), start = line.from + found[0].length, marker = found[1];
    const space = indentOf(text.slice(start, line.to)), width = step + marker.length + (space > 4 ? 1 : Math.max(1, space));
    const inner = [outdented(text, { ...line, from: start }, space > 4 ? 1 : space)];
    let blank = 0;
    for (next++; next < lines.length; next++) {
      const words = lineText(text, lines[next]), by = indentOf(words);
      if (!words.trim()) blank++;
      else if (by >= step + 2 || !blank && !isStart(words) && !ITEM.test(words)) {
        inner.push(...lines.slice(next - blank, next), outdented(text, lines[next], Math.min(by, width)));
        blank = 0;
      } else break;
    }
    if (blank && !markerAt(next)) next -= blank;
    /** @type {Slice} */
    const number = [start - marker.length, start];
    items.push({ tag: 'li', inside: [...marker.length > 1 ? [{ tag: 'span', inside: [number] }] : [], { tag: 'div', inside: blocksOf(text, inner, deep + 1) }] });
    if (items.length > MOST_PIECES) throw new TooLarge();
    if (blank && !markerAt(next)) break;
  }
  return [[{ tag: /\d/.test(lineText(text, lines[at]).trim()[0]) ? 'ol' : 'ul', inside: items }], next];
}

/** The cells of a line, without the space around them. @param {string} text @param {Line} line @returns {Line[]} */
function cellsOf(text, line) {
  /** @type {Line[]} */
  const cells = [];
  let { from } = outdented(text, line, line.to), to = line.from + lineText(text, line).trimEnd().length;
  if (text[from] === '|') from++;
  if (to > from && text[to - 1] === '|' && text[to - 2] !== '\\') to--;
  for (let at = from; at <= to; at++) {
    if (at < to && (text[at] !== '|' || text[at - 1] === '\\')) continue;
    const words = text.slice(from, at), start = from + words.length - words.trimStart().length;
    cells.push({ from: start, to: Math.max(start, from + words.trimEnd().length), end: at });
    from = at + 1;
  }
  return cells;
}

/** Are a line and the next one the head of a table? @param {string} text @param {Line[]} lines @param {number} at */
const isTable = (text, lines, at) => lineText(text, lines[at]).includes('|') && CELL_LINE.test(lineText(text, lines[at + 1])) && cellsOf(text, lines[at]).length === cellsOf(text, lines[at + 1]).length;

/** @type {BlockReader} */
function table(text, lines, at) {
  if (!isTable(text, lines, at)) return null;
  const aligned = cellsOf(text, lines[at + 1]).map(cell => /^:?-+:$/.test(lineText(text, cell)) ? '.r' : '');
  let left = MOST_PIECES;
  /** @param {Line} line @param {'th' | 'td'} tag @returns {Part} */
  const row = (line, tag) => {
    const cells = cellsOf(text, line);
    left -= Math.max(cells.length, aligned.length);
    if (left < 0) throw new TooLarge();
    while (cells.length < aligned.length) cells.push({ from: line.to, to: line.to, end: line.to });
    return { tag: 'tr', inside: cells.map((cell, n) => ({ tag: (cell.to > cell.from ? tag : 'td') + (aligned[n] ?? ''), inside: inlineOf(text, [cell]) })) };
  };
  /** @type {Part[]} */
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lineText(text, lines[next]).includes('|') && !isStart(lineText(text, lines[next])); next++) rows.push(row(lines[next], 'td'));
  const inside = [{ tag: 'thead', inside: [row(lines[at], 'th')] }, { tag: 'tbody', inside: rows }];
  return [[{ tag: 'div.scroll', inside: [{ tag: 'table', inside }] }], next];
}

/** @type {BlockReader} */
function paragraph(text, lines, at) {
  let next = at + 1, tag = 'p';
  for (; next < lines.length; next++) {
    const words = lineText(text, lines[next]), [, under] = UNDERLINE.exec(words) ?? [];
    if (under) tag = under[0] === '=' ? 'div.hd.hd1' : 'div.hd.hd2';
    if (under || !words.trim() || isStart(words) || isTable(text, lines, next)) break;
  }
  const inside = inlineOf(text, lines.slice(at, next).map(line => outdented(text, line, line.to)));
  return [[{ tag, inside }], tag === 'p' ? next : next + 1];
}

const ESCAPED = /\\[\\\x60*_#+.!|<>~-]/y;
const SPECIAL = /[\\\x60*_~[\]]|!\[/g;
const PUNCTUATION = /[!-/:-@[-\x60{-~]/;
/** An address in round brackets, with a title perhaps. */
const TARGET = /\(\s{0,9}(?:<[^<>\n]{0,2000}>|[^\s()<]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500}){0,3})(?:\s{1,9}(?:\x22[^\x22]{0,500}\x22|'[^']{0,500}'|\([^()]{0,500}\)))?\s{0,9}\)/y;

/** @typedef {{at: number, end: number, open?: string, close?: boolean, atom?: string, from?: number, to?: number}} Cut characters that are not shown, where an element begins, ends, or (`atom`) is whole */
/** @typedef {{at: number, left: number, length: number, isBoth: boolean}} Opener */

/**
 * Emphasis, code and links in lines that belong together.
 *
 * @param {string} text
 * @param {Line[]} lines
 * @returns {Piece[]}
 */
function inlineOf(text, lines) {
  const words = lines.map(line => lineText(text, line)).join('\n');
  return treeOfCuts(cutsOf(words), words.length, sourceOf(lines));
}

/** Finds ranges of joined lines in the source; asked for in rising order. @param {Line[]} lines @returns {(from: number, to: number) => Slice[]} */
function sourceOf(lines) {
  let n = 0, start = 0;
  return (from, to) => {
    /** @type {Slice[]} */
    const found = [];
    while (from < to && n < lines.length) {
      const line = lines[n], length = line.to - line.from;
      if (from < start + length) found.push([line.from + from - start, line.from + Math.min(to - start, length)]);
      if (to <= start + length) break;
      if (from <= start + length) found.push([line.end, line.end + 1]);
      start += length + 1;
      from = Math.max(from, start);
      n++;
    }
    return joined(found);
  };
}

/** @param {string} words @returns {Cut[]} */
function cutsOf(words) {
  /** @type {Cut[]} */
  const cuts = [];
  const ticks = sameRuns(words);
  /** What may still begin something, by its character. @type {Record<string, Opener[]>} */
  const open = { '*': [], '_': [], '~': [], '[': [] };
  /** @param {number} at */
  const forget = at => {
    for (const waiting of Object.values(open)) while ((waiting.at(-1)?.at ?? -1) > at) waiting.pop();
  };
  /** @param {string} char @param {number} at @param {number} end */
  const emphasis = (char, at, end) => {
    const before = words[at - 1] ?? ' ', after = words[end] ?? ' ', length = end - at;
    const isLeft = !!after.trim() && (!PUNCTUATION.test(after) || !before.trim() || PUNCTUATION.test(before));
    const isRight = !!before.trim() && (!PUNCTUATION.test(before) || !after.trim() || PUNCTUATION.test(after));
    const opens = isLeft && (char !== '_' || !isRight || PUNCTUATION.test(before)), closes = isRight && (char !== '_' || !isLeft || PUNCTUATION.test(after));
    if (char === '~' ? length !== 2 : length === 1 && /\w/.test(before) && /\w/.test(after)) return; // 2*3*4 is no emphasis
    const waiting = open[char];
    while (closes && at < end) {
      const opener = waiting.slice(-4).reverse().find(each => !((each.isBoth || opens && closes) && (each.length + length) % 3 === 0 && (each.length % 3 || length % 3)));
      if (!opener) break;
      const size = Math.min(2, opener.left, end - at), tag = char === '~' ? 'del' : size === 2 ? 'strong' : 'em', from = opener.at + opener.left - size;
      cuts.push({ at: from, end: from + size, open: tag }, { at, end: at + size, close: true });
      at += size;
      opener.left -= size;
      forget(opener.at);
      if (!opener.left) waiting.pop();
    }
    if (opens && at < end) waiting.push({ at, left: end - at, length, isBoth: opens && closes });
  };
  /** @param {number} at @returns {number} where to go on */
  const link = at => {
    const opener = open['['].pop();
    TARGET.lastIndex = at + 1;
    if (!opener || !TARGET.test(words)) return at + 1;
    const end = TARGET.lastIndex;
    cuts.push({ at: opener.at, end: opener.at + opener.length, open: opener.length > 1 ? 'span.img' : 'span.link' }, { at, end: at + 1, close: true });
    cuts.push({ at: at + 1, end, atom: 'span.url', from: at + 1, to: end });
    forget(opener.at);
    return end;
  };
  SPECIAL.lastIndex = 0;
  for (let found; (found = SPECIAL.exec(words));) {
    const at = found.index, char = found[0];
    let end = at + char.length;
    if (char === '\\') {
      ESCAPED.lastIndex = at;
      if (ESCAPED.test(words)) cuts.push({ at, end: end++ });
    } else if (char === '\x60') {
      while (words[end] === char) end++;
      const close = ticks.get(at);
      if (close !== undefined) {
        const space = words[end] === ' ' && words[close - 1] === ' ' && words.slice(end, close).trim() ? 1 : 0, behind = close + end - at;
        cuts.push({ at, end: behind, atom: 'code', from: end + space, to: close - space });
        end = behind;
      }
    } else if (char === ']') end = link(at);
    else if (char.endsWith('[')) open['['].push({ at, left: 0, length: char.length, isBoth: false });
    else {
      while (words[end] === char) end++;
      emphasis(char, at, end);
    }
    SPECIAL.lastIndex = end;
  }
  return cuts.sort((one, other) => one.at - other.at);
}

/** Where the next run of as many backticks begins, for each run. @param {string} words */
function sameRuns(words) {
  /** @type {Map<number, number>} */
  const next = new Map(), found = new Map();
  for (const run of [...words.matchAll(/\x60+/g)].reverse()) {
    const other = next.get(run[0].length);
    if (other !== undefined) found.set(run.index, other);
    next.set(run[0].length, run.index);
  }
  return found;
}

/** @param {Cut[]} cuts @param {number} length @param {(from: number, to: number) => Slice[]} source @returns {Piece[]} */
function treeOfCuts(cuts, length, source) {
  /** @type {Piece[]} */
  const root = [];
  const stack = [root];
  let done = 0;
  for (const { at, end, open, close, atom, from = 0, to = 0 } of cuts) {
    const top = stack[stack.length - 1];
    top.push(...source(done, at));
    done = end;
    if (close) stack.pop();
    else if (atom) top.push({ tag: atom, inside: source(from, to) });
    else if (open) {
      /** @type {Piece[]} */
      const inside = [];
      top.push({ tag: open, inside });
      stack.push(inside);
    }
    if (stack.length > MOST_NESTED) throw new TooLarge();
  }
  root.push(...source(done, length));
  return root;
}
