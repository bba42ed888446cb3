/* Checks: verdict, reason, evidence, votes and what is known of the judge. */

/** Checks inside of checks that are shown. */
const MOST_LEVELS = 50;

/**
 * The places in a reply that its checks found. A mark around all of it, or of its JSON, would say nothing.
 *
 * @param {string} text
 * @param {Check[]} checks
 * @returns {Mark[]}
 */
function evidence(text, checks) {
  return checks.flatMap(({ label, spans = [], forbidden, children = [] }) => [
    ...inUnits(text, spans).filter(([from, to]) => to - from < text.trim().length && !(/json/.test(label) && text.slice(from, to).includes('\n'))).map(([from, to]) => /** @type {Mark} */ ([from, to, forbidden ? 'miss' : 'hit'])),
    ...evidence(text, children),
  ]);
}

/**
 * @param {Check} check
 * @param {number[]} places
 * @param {Turn | null} turn
 * @param {Conversation} talk
 * @param {Check['state']} [state] a check inside of one that forbids it has the state of that
 * @returns {HTMLElement}
 */
function checkView(check, places, turn, talk, state = check.state) {
  const { called, children = [], reason, told = reason, judge } = check, isNot = check.label.split(' ')[0] === 'not', [only] = children;
  const isNamed = called !== check.label && !called.startsWith(check.label.split(' ')[0]), isOne = isNot && children.length === 1 && !only.judge && !only.children;
  return h(`div.chk.${state}`, markView(state),
    h('div.lb', h('span.sr', `${state}: `), isNamed && [h('span.nm', foreign(called)), ' '],
      h('code', shortView(isNamed ? check.label : called, 300)),
      (state !== 'passed' || judge) && told && h('div.rs', shortView(told, 2000)),
      foundView(check), judgeView(check)),
    h('div.sc', check.score, actions.check.map(make => make(check, places, turn, talk))),
    !isOne && children.length > 0 && places.length < MOST_LEVELS && h('div.kids', children.map((child, n) => checkView(child, [...places, n], turn, talk, isNot ? state : child.state))));
}

/** Which of several things a check looked for are there. @param {Check} check @returns {Child} */
function foundView({ hits = [], misses = [] }) {
  /** @param {string[]} list @param {string} words */
  const part = (list, words) => list.length > 0 && [`${words} `, list.slice(0, 50).map(item => h(`span.item.${words}`, shortView(item, 100))), list.length > 50 && ` and ${list.length - 50} more `];
  return hits.length + misses.length > 0 && h('div.votes', part(hits, 'found'), part(misses, 'missing'));
}

/** @param {Check} check @returns {Child} */
function judgeView({ judge, judged_by: digest, votes = [] }) {
  if (!judge) return null;
  const known = digest && dataSource.head().judges?.[digest];
  return h('div.votes', 'Judge ', foreign(judge), votes.length > 0 && [' voted ', votes.map(([words, passed]) => h(passed ? 'span.vote.y' : 'span.vote', words))],
    known && h(known === 'uncalibrated' ? 'span.uncal' : 'span', known));
}

/** A check in lines of text, with the passages it found. @param {Check} check @param {Turn | null} turn @returns {string} */
function checkText(check, turn) {
  const text = turn?.response ?? '';
  const found = inUnits(text, check.spans ?? []).map(([from, to]) => text.slice(from, to));
  return [
    `${check.state}: ${check.called}`, check.called === check.label ? '' : check.label, check.reason,
    check.scored ? `score ${check.scored}` : check.score && `score ${check.score}`,
    ...found.map(passage => `${check.forbidden ? 'found, but forbidden' : 'found'}: ${passage}`),
    ...(check.children ?? []).map(child => checkText(child, turn).replace(/^/gm, '  ')),
  ].filter(line => line).join('\n');
}

actions.check.push((check, places, turn) => places.length === 1 && (check.state !== 'passed' || check.judge) && buttonView('Copy', () => copy(checkText(check, turn), 'Check'), { class: 'btn quiet small', 'aria-label': 'Copy check with its evidence' }));
