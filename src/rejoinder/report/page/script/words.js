/* Marks of outcomes. Words, times and money come from Python as texts. */

/** @type {Outcome[]} */
const OUTCOMES = ['first', 'recovered', 'failed', 'error', 'skipped'];
/** @type {Change[]} */
const CHANGES = ['worse', 'better', 'words', 'same', 'only'];

/** The class of a mark, which gives its colour and its shape. @type {Record<string, string>} */
const MARK = {
  first: 'first', recovered: 'rec', failed: 'fail', error: 'err', skipped: 'skip', passed: 'first',
  worse: 'fail', better: 'first',
};

/** Digits in groups of three, for numbers that change in the browser. @param {number} value */
const group3 = value => String(value).replace(/\B(?=(\d{3})+$)/g, ',');

/**
 * The mark of an outcome: a colour with a shape; a recovery has the number of its turn. The words stand beside it.
 *
 * @param {string} outcome
 * @param {number} [turn]
 */
const markView = (outcome, turn) => h(`b.mark.${MARK[outcome]}`, { 'data-t': turn, 'aria-hidden': 'true' });

/** An outcome in words, with its mark. @param {Row} row */
const stateView = row => h(`span.state.${MARK[row.outcome]}`, markView(row.outcome, row.recovered_on), row.word);

/** The other things a conversation is known by beside its case. @param {Row} row @returns {string[]} */
const whose = row => [row.target, ...row.variant ? [row.variant] : [], ...row.trial > 1 ? [`trial ${row.trial}`] : []];
