/* One conversation: why it ended as it did, its turns, and each follow-up below the check that asked for it. */

/** Follow-ups inside of follow-ups that are moved to the right. */
const MOST_DEEP = 12;

const detailBox = h('div.detail', { id: 'detail', tabindex: '-1', role: 'region', 'aria-label': 'Conversation', hidden: true });

/**
 * @typedef {object} Node_ a turn with the follow-ups that hang on it
 * @property {Turn} turn
 * @property {{role: string, content: string}[]} before messages of the request before
 * @property {Node_[]} kids
 * @property {number} level
 */

/** Prompts and replies with what was sought in them marked. @param {string} text @param {Mark[]} [marks] */
const saidView = (text, marks = []) => textView(text, [...marks, ...soughtIn(text, queryNow().q)]);

/**
 * @param {string} who
 * @param {string} css
 * @param {...Child} what
 */
const messageView = (who, css, ...what) => h(`div.msg.${css}`, h('div.who', { title: inertText(who) }, foreign(who)), h('div', what));

/** What a person or a script asked; logs keep their columns. @param {string} text @param {Mark[]} [marks] */
const askedView = (text, marks) => h(isLog(text) ? 'div.raw' : 'div', saidView(text, marks));

/** The title, unless the first turn shows it. @param {Conversation} talk @returns {Child} */
const titleView = ({ row, turns = [] }) => h(row.title === turns[0]?.prompt ? 'h1.sr' : 'h1', foreign(row.title || row.case));

/** @param {Tool} tool */
function toolView({ name, server, arguments: words, result, status, note }) {
  const isBad = !!note || status === 'failed' || status === 'denied', given = argumentsOf(words);
  const [before, after] = ['old', 'new'].map(start => given.find(([key]) => RegExp(`^${start}(_?(string|str|text|content))?$`, 'i').test(key)));
  const isEdit = before && after;
  return h('div.tool', h('b', server && [foreign(server), ' / '], foreign(name), isBad && h('span.bad', ` ${note ?? status}`)),
    h('dl', given.filter(one => !isEdit || one !== before && one !== after).map(([key, value]) => [h('dt', foreign(key)), h('dd', shortView(value, 2000))])),
    isEdit && folded(h('div', h('pre.diff', { tabindex: '0' }, [before, after].map(([, text], n) => text.slice(0, CUT).split('\n').map(line => h(n ? 'span.add' : 'span.del', n ? '+ ' : '- ', plain(line)))))), sizeOfText(before[1] + after[1]), FOLD_CODE),
    result != null && h('div.result', h('span', 'result'), resultView(result)));
}

/** The arguments of a call by their names, or as one text. @param {string} words @returns {[string, string][]} */
function argumentsOf(words) {
  try {
    const found = JSON.parse(words);
    if (found instanceof Object) return Object.entries(found).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]);
  } catch {
    // what is no JSON is shown as it is
  }
  return [['arguments', words]];
}

/** @param {string} diff @returns {Child} */
function diffView(diff) {
  /** @type {Mark[]} */
  const marks = [];
  const counts = { add: 0, del: 0, names: 0 };
  for (const line of diff.slice(0, CUT).matchAll(/^(?:(\+\+\+ |--- )|(\+)|-).*\n?/gm)) {
    const css = line[1] ? 'names' : line[2] ? 'add' : 'del';
    counts[css]++;
    marks.push([line.index, line.index + line[0].length, css]);
  }
  const shown = cutAt(diff, CUT), code = h('pre.diff', { tabindex: '0' }, marked(diff.slice(0, shown), 0, marks));
  return [h('p.note', 'Changes in the workspace', shown === diff.length && `, +${counts.add} -${counts.del}`),
    folded(h('div', code), sizeOfText(diff), FOLD_CODE, () => {
      if (shown < diff.length) fill(code, plain(diff.slice(0, STEP)));
      return 0;
    })];
}

/** The request as it was sent; repeated messages are dimmed. @param {Node_} node @param {Conversation} talk @returns {Child} */
function requestView({ turn: { sent }, before }, { output_schema: schema }) {
  if (!sent) return null;
  return fold(`Request as sent, ${sent.size}`, () => h('div.wire',
    [...before.slice(0, sent.kept), ...sent.added].map(({ role, content }, n) => h(n < sent.kept ? 'div.old' : 'div', h('span', plain(role)), h('div', textView(content)))),
    schema && h('div', h('span', 'output schema'), h('div', textView(schema)))));
}

/** The JSON Schema that was sent with each request, folded. @param {Conversation} talk @returns {Child} */
const schemaView = ({ output_schema: schema, output_schema_size: size }) => schema && fold(`Output schema, ${size}`, () => saidView(schema));

/** A turn that passed may break a check of the conversation. @param {Turn} turn */
const turnOutcome = ({ outcome, broke = [] }) => outcome === 'passed' && broke[0] ? broke[0].state : outcome;

/** The system prompt, folded. @param {Conversation} talk @returns {Child} */
const systemView = ({ system, system_size: size }) => system && fold(`System prompt, ${size}`, () => saidView(system));

/** @param {Turn} turn @returns {Child} */
function verdictWords({ outcome, word, broke = [] }) {
  if (outcome === 'passed' && broke.length) return h('span.bad', broke[0].state === 'error' ? 'could not decide: ' : 'breaks: ', shortView(broke.map(({ called }) => called).join(', '), 200));
  return h(outcome === 'passed' ? 'span' : 'span.bad', word || outcome);
}

/**
 * @param {Node_} node
 * @param {Conversation} talk
 * @param {string} [title]
 * @returns {HTMLElement}
 */
function turnView(node, talk, title) {
  const { turn, kids } = node, { checks = [], notes = [], thinking } = turn;
  const name = title ?? `Turn ${turn.turn}`, isTaken = !title && turn.turn <= (talk.fork?.turns ?? 0);
  const facts = [turn.model && turn.model !== talk.row.target && foreign(turn.model), turn.time, turn.used, turn.cost];
  /** @param {number} place */
  const hanging = place => kids.filter(({ turn: { asked_by: by } }) => (by && checks[by.check[0]] ? by.check[0] : -1) === place).map(kid => branchView(kid, talk));
  /** @type {[Child[], Child[]]} checks that asked for nothing, and those that did, with their follow-ups */
  const own = [[], []];
  checks.forEach((check, n) => {
    const hung = hanging(n);
    own[hung.length ? 1 : 0].push(checkView(check, [n], turn, talk), hung);
  });
  return h(isTaken ? 'section.turn.taken' : 'section.turn', { id: title ? null : `t${turn.turn}`, 'aria-label': name, tabindex: '-1' },
    h('div.th', h('h2', name), turn.label && h('span.chip', turn.simulated ? 'simulated user' : plain(turn.label)), turn.doubts && h('span.chip', 'doubt'), verdictWords(turn),
      h('span.r', facts.filter(fact => fact).map((fact, n) => [n > 0 && ' · ', fact]))),
    messageView('User', 'asked', askedView(turn.prompt), turn.hint && h('p.note', 'Hint: ', plain(turn.hint))),
    messageView(talk.row.target, 'said', thinking && fold(`Thinking, ${turn.thought}`, () => saidView(thinking)),
      replyView(turn), againstView(turn, talk), notesView(notes)),
    h('div.under', requestView(node, talk), actions.turn.map(make => make(turn, talk))),
    h('div.checks', own, hanging(-1)));
}

/** What a target did and said; calls that were not carried out come last. @param {Turn} turn @param {Mark[]} [marks] @param {Mark[]} [others] where it first differs from the reply beside it @returns {Child} */
function replyView({ response, outcome, same_as: same, miss, tools = [], diff, checks = [], broke = [] }, marks, others) {
  const isSilent = response == null || !response && !tools.length;
  const said = isSilent ? h('p.none', response == null ? 'No reply' : 'Empty reply') : response && replyTextView(response, [...marks ?? evidence(response, [...checks, ...broke]), ...others ?? [], ...miss ? inUnits(response, [miss]).map(([from, to]) => /** @type {Mark} */ ([from, to, 'near'])) : [], ...soughtIn(response, queryNow().q)]);
  return [tools.filter(tool => tool.status).map(toolView), same ? sameView(same, outcome, said) : said, tools.filter(tool => !tool.status).map(toolView), diff && diffView(diff)];
}

/** The reply said the same again: its words are folded. @param {number} turn @param {string} outcome @param {Child} said @returns {Child} */
const sameView = (turn, outcome, said) => [h(outcome === 'passed' ? 'p.same.fine' : 'p.same', `Same words as turn ${turn}.`), fold('Show the reply', () => said)];

/** The reply beside an earlier one, word by word, where enough of them are the same. @param {Turn} turn @param {Conversation} talk @returns {Child} */
function againstView({ response, depth, same_as: same, near, turn }, { turns = [] }) {
  const earlier = turns.find(each => each.turn === (near?.turn ?? turn - 1)), before = earlier?.response;
  if (!depth || same || !response || !before) return null;
  const marks = otherWords(before, response);
  return marks && fold(`Against turn ${earlier.turn}${near ? `: ${near.share} the same words` : ''}`, () => h('div.pair',
    [before, response].map((text, n) => h('div.side', { 'data-name': `Turn ${n ? turn : earlier.turn}` }, textView(text, marks[n])))));
}

/** Did a turn or one of its follow-ups pass? @param {Node_} node @returns {boolean} */
const isSettled = node => node.turn.outcome === 'passed' || node.kids.some(isSettled);

/** @param {Node_} node @param {Conversation} talk */
const branchView = (node, talk) => h(isSettled(node) ? 'div.branch.pass' : 'div.branch.bad',
  h('p.because', 'Follow-up, because ', h('b', plain(node.turn.asked_by?.because))), turnView(node, talk));

/** The turns as a tree. @param {Turn[]} turns @returns {Node_[]} */
function treeOf(turns) {
  /** @type {Map<number, Node_>} */
  const nodes = new Map();
  /** @type {Node_[]} */
  const roots = [];
  /** @type {Node_['before']} */
  let before = [];
  for (const turn of turns) {
    const parent = nodes.get(turn.asked_by?.turn ?? 0);
    const node = { turn, before, kids: [], level: (parent?.level ?? 0) + 1 };
    (parent && parent.level < MOST_DEEP ? parent.kids : roots).push(node);
    nodes.set(turn.turn, node);
    before = [...before.slice(0, turn.sent?.kept ?? 0), ...turn.sent?.added ?? []];
  }
  return roots;
}

/** Why it ended as it did. @param {Conversation} talk @returns {Child} */
function whyView({ row, reasons = [], turns = [] }) {
  const [reason, ...more] = reasons;
  if (!reason) return null;
  const { outcome, word } = row, { where, what, text, silent, turn, said } = reason, goal = outcome === 'recovered' ? row.recovered_on : turn;
  const words = outcome === 'recovered' ? ['Failed ', h('b', plain(what)), ` on turn ${turn}. ${word}`]
    : [h('b', plain(where ? `${where}: ${what}` : what)), silent ? ' failed' : [': ', shortView(text.replace(/[.\s]+$/, ''), 600)], more.length > 0 && `, and ${more.length} more`];
  return h(`a.why.${MARK[outcome]}`, { href: goal && turnHref(goal) }, words, '. ', said && h('span.quote', 'It said “', foreign(said), '” '), goal && turns.length > 1 && h('span.go', `Go to turn ${goal} ↓`));
}

/** @param {number} turn */
const turnHref = turn => addresses.href({ ...placeNow, turn });

/** @param {Conversation} talk @returns {Child} */
function trailView({ turns = [], steps = [] }) {
  const plan = steps.length > 0 && h('ol.trail', { 'aria-label': 'Planned steps' }, steps.map(({ step, name, status }) => h('li', markView(status), plain(name ?? `step ${step}`), h('span', status === 'skipped' ? 'not sent' : status))));
  const trail = turns.length > 1 && h('nav.trail', { 'aria-label': 'Turns' }, turns.map(turn => h('a', { href: turnHref(turn.turn) }, markView(turnOutcome(turn) === 'passed' && turn.depth ? 'recovered' : turnOutcome(turn), turn.turn), `Turn ${turn.turn}`, h('span.sr', `: ${turnOutcome(turn)}`))));
  return [plan, trail];
}

/**
 * The command that goes on from the last turn. There is none for names with characters that a terminal would obey.
 *
 * @param {Conversation} talk
 */
function forkCommand({ row, turns = [] }) {
  /** @param {string} text */
  const quoted = text => /^[\w.:/-]+$/.test(text) ? text : ["'", "'"].join(text.replaceAll("'", "'\\''"));
  const { run, fork } = dataSource.head(), { case: name, target, variant, trial } = row;
  const words = ['rejoinder fork', quoted(run), `--case=${quoted(name)}`, `--of=${quoted(target)}`, ...variant ? [`--variant=${quoted(variant)}`] : [], ...trial > 1 ? [`--trial=${trial}`] : [], `--turn=${turns.at(-1)?.turn ?? 1}`, '--prompt ""'].join(' ');
  return fork && !UNSEEN.test(words) && !/[\r\n]/.test(words) ? words : '';
}

actions.conversation.push(
  () => buttonView('Copy link', () => copy(location.href, 'Link')),
  talk => {
    const command = forkCommand(talk);
    return command && buttonView('Copy fork command', () => copy(command, 'Command'), { title: command });
  },
);

/** A choice of other conversations of the case. @param {Conversation} talk @param {Row[]} rows @returns {Child} */
function compareView({ row }, rows) {
  const others = rows.filter(other => !isSame(addressOf(other), addressOf(row)) && other.has_body !== false).slice(0, 200);
  const field = h('select.btn', { 'aria-label': 'Compare with', onchange: () => {
    const other = others[Number(field.value)];
    if (other) go({ ...RUN, page: 'compare', address: addressOf(row), other: addressOf(other) });
  } }, h('option', { value: '' }, 'Compare …'), others.map((other, n) => h('option', { value: n }, inertText(`${whose(other).join(', ')}: ${other.word}`))));
  return others.length > 0 && field;
}

/**
 * @param {Conversation} talk
 * @param {Row[]} siblings
 */
function conversationView(talk, siblings) {
  const { row, turns = [], checks = [], notes = [], course = [], fork, control, error, file, line } = talk, roots = treeOf(turns);
  const told = course.filter(([label]) => label !== 'steps').map(([label, text]) => `${label.replace(/^./, letter => letter.toUpperCase())}: ${text}.`);
  return h('div.inner',
    h('header.dhead', pathView(row, file && `${file}${line ? `:${line}` : ''}`), titleView(talk),
      h('div.meta', stateView(row), foreigns(whose(row)),
        foreigns([row.score && `score ${row.score}`, row.used, row.time, row.cost].flatMap(fact => fact || []))),
      whyView(talk), notesView([...notes, ...told]), h('div.below', h('div', trailView(talk)), h('span.acts', compareView(talk, siblings), actions.conversation.map(make => make(talk))))),
    fork && h('p.note.from', 'From run ', foreign(fork.run), fork.turns > 1 ? `, turn 1 to ${fork.turns}` : ', turn 1', ': not asked again.'),
    systemView(talk),
    schemaView(talk),
    roots.map(node => turnView(node, talk)),
    error && h('section.turn', h('div.th', h('h2', `Error on turn ${error.turn}`), h('span', plain(error.type))), textView(error.message)),
    checks.length > 0 && h('section.turn', { 'aria-label': 'Whole conversation' }, h('div.th', h('h2', 'Whole conversation')), h('div.checks', checks.map((check, n) => checkView(check, [n], null, talk)))),
    control && turnView({ turn: control, before: [], kids: [], level: 0 }, talk, 'Control: asked again in a new conversation'),
    h('nav.nav', { 'aria-label': 'Other conversations' }, buttonView(['← Previous ', h('kbd', 'k')], () => move(-1), { disabled: listNow.at <= 0 }), buttonView(['Next ', h('kbd', 'j'), ' →'], () => move(1), { disabled: listNow.at >= listNow.total - 1 })));
}

/** Suite, case, tags: where a conversation belongs. @param {Row} row @param {string} [file] */
const pathView = (row, file) => h('div.path', buttonView('← List', () => closeDetail(), { class: 'btn quiet back' }), h('span', foreign(row.suite)), '/', h('span.mono', foreign(row.case)),
  (row.tags ?? []).map(tag => h('a.tag', { href: addresses.href({ ...RUN, query: { ...NO_QUERY, tag } }) }, foreign(tag))), file && h('span.mono', plain(file)));

/** What is known of a conversation that is not at hand. @param {Address} address @param {Row[]} siblings */
function missingView(address, siblings) {
  const row = siblings.find(each => isSame(addressOf(each), address));
  return h('div.inner', h('header.dhead', row && pathView(row), h('h1', foreign(row?.title || address.case)),
    row ? h('p.note', `${row.word}. Its turns were left out to keep this file small: make the report with --full.`) : h('p.note', 'There is no such conversation here. '), buttonView('Show the list', () => closeDetail())));
}
