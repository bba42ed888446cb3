/* Two conversations of one case beside each other, turn by turn, with the first difference. */

/** Words of one reply times words of the other, without those that both begin and end with, above which they are not compared. */
const MOST_COMPARED = 400000;

/** @param {string} text */
const wordsOfText = text => [...text.matchAll(/\S+/g)];

/** How many words two texts begin with. @param {RegExpExecArray[]} one @param {RegExpExecArray[]} two */
function alikeAtFirst(one, two) {
  const most = Math.min(one.length, two.length);
  let alike = 0;
  while (alike < most && one[alike][0] === two[alike][0]) alike++;
  return alike;
}

/** The first word that differs, or the last one of the shorter text: folded texts show it. @param {string} a @param {string} b @returns {Mark[][]} */
function firstOthers(a, b) {
  const both = [wordsOfText(a), wordsOfText(b)], alike = alikeAtFirst(both[0], both[1]);
  return both.map(words => a === b ? [] : [...words.slice(alike), ...words.slice(-1)].slice(0, 1).map(word => [word.index, word.index + word[0].length, 'from']));
}

/**
 * The words of two texts that the other has not: marks for both. Null where most differ, and colour would say nothing.
 *
 * @param {string} a
 * @param {string} b
 * @param {number} [least] the share of words that both have
 * @returns {[Mark[], Mark[]] | null}
 */
function otherWords(a, b, least = 0.5) {
  const all = [wordsOfText(a), wordsOfText(b)], shortest = Math.min(all[0].length, all[1].length), before = alikeAtFirst(all[0], all[1]);
  const [behind, other] = all.map(words => words.slice(before).reverse()), after = alikeAtFirst(behind, other);
  const [one, two] = all.map(words => words.slice(before, words.length - after)), width = two.length + 1;
  if (a === b || one.length * two.length > MOST_COMPARED) return null;
  const common = new Uint16Array((one.length + 1) * width);
  /** @param {number} i @param {number} j */
  const at = (i, j) => common[i * width + j] ?? 0;
  /** @param {number} i @param {number} j */
  const agree = (i, j) => i < one.length && j < two.length && one[i]?.[0] === two[j]?.[0];
  for (let i = one.length - 1; i >= 0; i--) for (let j = two.length - 1; j >= 0; j--) common[i * width + j] = agree(i, j) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  if (before + after + at(0, 0) <= least * shortest) return null;
  /** @type {[Mark[], Mark[]]} */
  const marks = [[], []];
  /** @param {0 | 1} side @param {RegExpExecArray | undefined} word */
  const put = (side, word) => word && marks[side].push([word.index, word.index + word[0].length, side ? 'db' : 'da']);
  for (let i = 0, j = 0; i < one.length || j < two.length;) {
    if (agree(i, j)) (i++, j++);
    else if (j >= two.length || i < one.length && at(i + 1, j) >= at(i, j + 1)) put(0, one[i++]);
    else put(1, two[j++]);
  }
  return marks;
}

/**
 * The first turn that differs, from 1, and by what; 0 for none. It is what `rejoinder compare` says: words before
 * verdicts, but where the same reply is graded differently, the verdict parts them and not the words after it.
 *
 * @param {Turn[]} a
 * @param {Turn[]} b
 * @returns {[number, '' | 'prompt' | 'reply' | 'verdict']}
 */
function firstDifference(a, b) {
  let graded = 0;
  for (const [n, one] of a.entries()) {
    const other = b[n];
    if (!other) break;
    if (!graded && (one.outcome === 'passed') !== (other.outcome === 'passed')) graded = n + 1;
    if (one.prompt !== other.prompt) return graded ? [graded, graded > n ? 'prompt' : 'verdict'] : [n + 1, 'prompt'];
    if ((one.response ?? null) !== (other.response ?? null)) return [n + 1, 'reply'];
  }
  if (graded) return [graded, 'verdict'];
  return a.length === b.length ? [0, ''] : [Math.min(a.length, b.length) + 1, 'reply'];
}

/** @param {[number, string]} difference @param {Turn | undefined} a @param {Turn | undefined} b @param {[string, string]} names */
function differenceWords([turn, kind], a, b, names) {
  const start = `First difference, turn ${turn}: `;
  if (!a || !b) return `${start}only ${names[a ? 0 : 1]} continues`;
  if (kind === 'prompt') return `${start}another prompt`;
  if (a.outcome === b.outcome) return `${start}different reply, same verdict`;
  return start + [a, b].map((each, n) => `${names[n]} ${{ passed: 'passes', failed: 'fails', error: 'has an error' }[each.outcome]}`).join(', ');
}

/** @param {Turn | undefined} turn @param {Conversation} talk @param {Mark[] | undefined} marks @param {Mark[]} others the first difference @param {string} name */
function sideView(turn, talk, marks, others, name) {
  if (!turn) return h('div.side.gone', { 'data-name': name }, /first|recovered/.test(talk.row.outcome) ? 'Had already passed.' : 'Ended before this turn.');
  const { checks = [] } = turn;
  return h('div.side', { 'data-name': name }, replyView(turn, marks, others), h('div.checks', checks.map((check, n) => checkView(check, [n], turn, talk))));
}

/** Two prompts, with words that only one side has. @param {(string | undefined)[]} texts @param {[string, string]} names */
const promptsView = ([a, b], names) => [a, b].map((text, n) => text == null ? h('div') : h('div.side.asked', { 'data-name': names[n] }, askedView(text, otherWords(a ?? '', b ?? '', -1)?.[n])));

/** Both system prompts. @param {Conversation} a @param {Conversation} b @param {[string, string]} names @returns {Child} */
const systemsView = (a, b, names) => a.system === b.system ? systemView(a) : h('div.pair', h('div.th', h('h2', `System prompts differ${b.unsent ? ', not sent' : ''}`)), promptsView([a.system, b.system].map(text => text || 'None'), names));

/** @param {Conversation} a @param {Conversation} b @param {[string, string]} names @param {[Place, Place]} places */
function pairView(a, b, names, places) {
  const { pair } = dataSource.head(), runs = !placeNow.other && pair ? [pair.a, pair.b] : null;
  const one = a.turns ?? [], two = b.turns ?? [], difference = firstDifference(one, two), [first] = difference, isOther = a.system !== b.system;
  const rows = Array.from({ length: Math.max(one.length, two.length) }, (_, n) => {
    const p = one[n], q = two[n], texts = [p?.response ?? '', q?.response ?? ''], marks = otherWords(texts[0], texts[1]), others = firstOthers(texts[0], texts[1]);
    return [n + 1 === first && h('p.split-at', { id: 'first' }, h('span', plain(differenceWords(difference, p, q, names)))),
      h('section.pair', { id: `t${n + 1}`, tabindex: '-1', 'aria-label': `Turn ${n + 1}` }, h('div.th', h('h2', `Turn ${n + 1}`)),
        p && q && p.prompt === q.prompt ? h('div.asked.both', askedView(p.prompt)) : promptsView([p?.prompt, q?.prompt], names),
        sideView(p, a, marks?.[0], others[0], names[0]), sideView(q, b, marks?.[1], others[1], names[1]))];
  });
  return h('div.inner.cmp',
    h('header.dhead', pathView(b.row), titleView(b),
      h('p.note', isOther && 'The system prompts differ. ', first ? h('a', { href: addresses.href({ ...placeNow, turn: first }) }, `They differ from turn ${first} on`) : `No difference in prompts${isOther ? ' of the user' : ''}, replies and verdicts`),
      h('div.pair.heads', [a, b].map(({ row }, n) => h('a.headlink', { href: addresses.href(places[n]) }, h('b', foreign(names[n])), runs && h('span.mono', { title: runs[n] }, plain(runs[n].slice(-4))), stateView(row),
        h('span.sub', [row.used, row.time].filter(fact => fact).join(', ')))))),
    systemsView(a, b, names),
    rows);
}
