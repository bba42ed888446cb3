/* Numbers, times, marks, and the words of outcomes. */

/** @typedef {'first' | 'recovered' | 'failed' | 'error' | 'skipped'} Outcome */
/** @typedef {'worse' | 'better' | 'words' | 'same' | 'only'} Change */

/** @type {Outcome[]} */
const OUTCOMES = ['first', 'recovered', 'failed', 'error', 'skipped'];
/** @type {Change[]} */
const CHANGES = ['worse', 'better', 'words', 'same', 'only'];

/** The class of a mark, which gives its colour and its shape. @type {Record<string, string>} */
const MARK = {
  first: 'first', recovered: 'rec', failed: 'fail', error: 'err', skipped: 'skip', passed: 'first',
  worse: 'fail', better: 'first',
};

/** Thousands are parted by a thin space. @param {number} value */
const numberText = value => String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f');

/** @param {number} ms */
const timeText = ms => ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round(ms % 60000 / 1000)} s`;

/** @param {number | null | undefined} cost */
const costText = cost => cost ? `$${cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2)}` : '';

/** @param {number} count @param {string} noun */
const countText = (count, noun) => `${numberText(count)} ${noun}${count === 1 ? '' : 's'}`;

/** @param {Pick<Row, 'outcome' | 'turns' | 'recovered_on'>} row */
const outcomeText = ({ outcome, turns, recovered_on: on = turns }) => ({
  first: 'Passed on the first try', recovered: `Recovered on turn ${on}`, failed: `Failed after ${countText(turns, 'turn')}`,
  error: 'Error', skipped: 'Skipped',
})[outcome];

/**
 * The mark of an outcome: a colour with a shape; a recovery has the number of its turn. The words stand beside it.
 *
 * @param {string} outcome
 * @param {number} [turn]
 */
const markView = (outcome, turn) => h(`b.mark.${MARK[outcome]}`, { 'data-t': turn, 'aria-hidden': 'true' });

/** An outcome in words, with its mark. @param {Row} row @param {string} words */
const stateView = (row, words) => h(`span.state.${MARK[row.outcome]}`, markView(row.outcome, row.recovered_on), words);

/** The other things a conversation is known by beside its case. @param {Row} row @returns {string[]} */
const whose = row => [row.target, ...row.variant ? [row.variant] : [], ...row.trial > 1 ? [`trial ${row.trial}`] : []];
