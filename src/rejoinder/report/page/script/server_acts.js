/* What can be done from a page. Each act is a request of the public API; a server that only shows offers none. */

/** @param {string} words @param {string} href */
const linkButton = (words, href) => h('a.btn', { href }, words);

/** @param {string} label @param {HTMLElement} field */
const labelled = (label, field) => h('label.field', h('span', label), field);

/** The page of a run that was queued. @param {{id: string} | null} queued */
function openQueued(queued) {
  if (queued) location.assign(`/runs/${queued.id}`);
}

/** @param {string} title @param {Child} fields @param {string} verb @param {() => Promise<unknown>} act */
function askFirst(title, fields, verb, act) {
  const box = h('dialog.ask', { 'aria-label': title }, h('h2', title), fields, h('div.acts', buttonView('Cancel', () => box.close()), buttonView(verb, async () => {
    const done = await attempt(act);
    if (done !== null) box.close();
  }, { class: 'btn main' })));
  showDialog(box);
}

/** A form below a turn: the same conversation from here on, in other words or with another target. @param {Turn} turn @param {Conversation} conversation */
function forkForm(turn, conversation) {
  const { row } = conversation, { targets = [] } = pageData;
  const target = h('select', targets.map(name => h('option', { value: name, selected: name === row.target }, inertText(name))));
  const times = h('input', { type: 'number', min: 1, max: 100, value: 1, size: 4 });
  const words = h('textarea', { rows: 4, dir: 'auto' });
  words.defaultValue = turn.prompt;
  const told = h('span.about'), before = turn.turn - 1;
  const tell = () => {
    const count = Math.max(1, Number(times.value) || 1), { used, cost, tokens = 0 } = turn;
    told.textContent = used ? `The turn used ${used}${cost ? `, ${cost}` : ''}; ${count > 1 ? `${group3(count)} forks, so about ${group3(tokens * count)} tokens or more` : 'what follows comes on top'}.` : '';
  };
  listen(times, 'input', tell);
  tell();
  const send = buttonView('Run the fork', async () => {
    const body = {
      suite: row.suite, case: row.case, of: row.target, trial: row.trial, turn: turn.turn, variant: row.variant ?? null, target: target.value || row.target, repeat: Math.max(1, Number(times.value) || 1),
      prompt: words.value === turn.prompt ? null : words.value,
    };
    openQueued(await attempt(() => sendAct('POST', `/runs/${dataSource.head().run}/fork`, body)));
  }, { class: 'btn main' });
  return h('div.forkform', h('div.fields', targets.length > 0 && labelled('Target', target), labelled('Times', times)), labelled(`New message for turn ${turn.turn}`, words),
    h('p.about', before > 1 ? `Turns 1 to ${before} are not asked again. ` : before ? 'Turn 1 is not asked again. ' : '', told), h('div.acts', send));
}

/** @param {Turn} turn @param {Conversation} conversation @returns {Child} */
function forkView(turn, conversation) {
  if (!pageData.acts || dataSource.head().pair || conversation.control === turn) return null;
  const form = fold('Fork from here', () => forkForm(turn, conversation));
  form.classList.add('act');
  return form;
}

/** @param {Conversation} conversation @returns {Child} */
function takeView({ row }) {
  const { run, pair } = dataSource.head();
  if (pair) return null;
  const { suite, case: name, target, variant = null, trial } = row;
  /** @param {string} as @param {number} [turn] */
  const get = (as, turn) => attempt(() => fetchData(`/data/runs/${run}/copy`, { suite, case: name, target, variant, trial, as, turn }));
  /** @param {string} as @param {string} what @param {number} [turn] */
  const take = async (as, what, turn) => {
    const text = await get(as, turn);
    if (text !== null) await copy(text, what);
  };
  return [
    buttonView('Copy as YAML case', () => take('yaml', 'Case')), buttonView('Copy as curl', () => take('curl', 'Command', placeNow.turn || row.turns || 1)),
    linkButton('Over time', `/cases/${encodeURIComponent(suite)}/${encodeURIComponent(name)}`),
  ];
}

/** What people said of replies, by the ids of the file; asked for once. @type {Promise<Map<string, string>> | null} */
let givenLabels = null;
const loadLabels = () => givenLabels ??= fetch('/api/v1/labels/replies').then(async answer => new Map(answer.ok ? (await answer.json()).labels.map((/** @type {{id: string, label: string}} */ { id, label }) => [id, label]) : []));

/** Pass or fail, by a person, for any reply. @param {Turn} turn @param {Conversation} conversation @returns {Child} */
function labelView(turn, conversation) {
  const { run, pair } = dataSource.head(), { suite, case: name, target, variant = null, trial } = conversation.row;
  if (!pageData.acts || pair || conversation.control === turn || turn.response == null) return null;
  const id = [run, suite, name, target, variant ?? '', trial, turn.turn].join(':');
  /** @param {'pass' | 'fail'} label */
  const button = label => buttonView(label === 'pass' ? 'Pass' : 'Fail', () => give(label), { class: 'btn quiet small', 'aria-label': `Label the reply of turn ${turn.turn}: ${label}`, 'aria-pressed': 'false' });
  /** @type {['pass' | 'fail', HTMLElement][]} */
  const both = [['pass', button('pass')], ['fail', button('fail')]];
  /** @param {string | undefined} given */
  const tell = given => both.forEach(([label, one]) => one.setAttribute('aria-pressed', String(label === given)));
  /** @param {'pass' | 'fail'} label */
  const give = label => attempt(async () => {
    const { file, labels } = await sendAct('POST', '/labels', { run, suite, case: name, target, variant, trial, turn: turn.turn, label });
    (await loadLabels()).set(id, label);
    tell(label);
    toast(`Labelled: ${label}. Labels in ${file}: ${group3(labels)}.`);
  });
  loadLabels().then(known => tell(known.get(id)), () => null);
  return h('span.give', { role: 'group', 'aria-label': 'Your label' }, 'Your label: ', both.map(([, one]) => one));
}

/** @param {Check} check @returns {Child} */
function judgeLinks({ judged_by: digest, judge }) {
  if (!digest || !judge || dataSource.head().pair) return null;
  return [h('a.btn.quiet.small', { href: `/judges/${encodeURIComponent(digest)}` }, 'Judge'), pageData.acts && h('a.btn.quiet.small', { href: labelHref(digest) }, 'Label')];
}

/** @param {string} [digest] */
const labelHref = digest => `/label?${wordsOf({ run: dataSource.head().run, check: digest })}`;

/** @param {string} run */
const rerun = run => askFirst('Run again what failed?', h('p', 'The cases that did not pass are asked again, in a new run. It costs what they cost.'), 'Run again', async () => openQueued(await sendAct('POST', `/runs/${run}/rerun`, { only: 'failed' })));

/** @param {string} run */
const regrade = run => askFirst('Re-grade the run?', h('p', 'Today’s checks look at the recorded replies. Models are not asked again, judges may be.'), 'Grade', async () => openQueued(await sendAct('POST', `/runs/${run}/grade`, {})));

/** @param {string} run */
function bless(run) {
  const name = h('input', { value: 'main', maxlength: 64 });
  askFirst('Keep the verdicts as a baseline', labelled('Name', name), 'Keep', async () => {
    const { replaced } = await sendAct('POST', `/runs/${run}/bless`, { name: name.value.trim() });
    toast(`Baseline ${name.value.trim()}${replaced ? ', instead of another run' : ''}`);
    return true;
  });
}

/** @param {string} run */
function editNotes(run) {
  const { tags = [], note: words = '' } = pageData.notes ?? { tags: [], note: '' };
  const field = h('input', { value: tags.join(' ') }), text = h('textarea', { rows: 4 });
  text.defaultValue = words;
  askFirst('Tags and note', [labelled('Tags, with spaces between', field), labelled('Note', text)], 'Save', async () => {
    await sendAct('PUT', `/runs/${run}/notes`, { tags: field.value.split(/[\s,]+/).filter(tag => tag), note: text.value });
    location.reload();
  });
}

/** @param {string} run @param {string} verb */
const steer = (run, verb) => attempt(async () => {
  await sendAct('POST', `/runs/${run}/${verb}`, {});
  toast(verb === 'stop' ? 'The run ends after what is being asked.' : 'The run continues soon.');
  if (verb === 'resume') location.reload();
});

/** The acts on a whole run. */
function runActs() {
  const { run, judges = {} } = dataSource.head(), box = byId('acts');
  if (!box) return;
  if (!pageData.acts) return;
  if (pageData.state === 'running' || pageData.stops) return void box.append(...leaves([pageData.stops && buttonView('Stop the run', () => steer(run, 'stop'))]));
  if (pageData.state === 'killed') return void fill(box, buttonView('Resume', () => steer(run, 'resume')));
  const { failed } = pageData, more = byId('more'), goOn = pageData.resumes && (() => buttonView('Resume', () => steer(run, 'resume')));
  const again = failed && (() => buttonView(['Re-run failed ', h('kbd', 'r')], () => rerun(run))), first = goOn || again;
  if (more) more.hidden = false;
  if (first) more?.before(h('span', { id: 'first-act' }, first()));
  box.append(...leaves([
    first && h('span.narrow', first()), goOn && again && again(), buttonView('Re-grade', () => regrade(run)), buttonView('Tags and note', () => editNotes(run)),
    buttonView('Save as baseline', () => bless(run)), Object.keys(judges).length > 0 && linkButton('Label replies', labelHref()),
  ]));
  listen(box, 'click', () => box.hidePopover?.());
  keyList.splice(-1, 0, { key: 'r', says: 'run again what failed', press: () => failed ? rerun(run) : false });
  if (Object.keys(judges).length) keyList.splice(-1, 0, { key: 'l', says: 'label replies', press: () => location.assign(labelHref()) });
}

actions.turn.push(forkView, labelView);
actions.conversation.push(takeView);
actions.check.push(judgeLinks);
