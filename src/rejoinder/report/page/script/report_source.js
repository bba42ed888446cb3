/* A report: its source is an index in columns and blocks of conversations, packed inside of the page. It begins here. */

/** @typedef {'case' | 'target' | 'variant' | 'trial' | 'outcome' | 'recovered_on' | 'body'} Numbers */
/** @typedef {'word' | 'length' | 'time' | 'why' | 'said' | 'same' | 'aside'} Texts places in the texts */
/** @typedef {Partial<Record<'change' | 'before' | 'before_word' | 'differs', number[]>>} OfPairs */
/** @typedef {Record<Numbers | Texts, number[]> & OfPairs & {clusters: number[][]}} Columns */
/** @typedef {{head: Head, cases: [string, string, string, string[]][], targets: string[], variants: string[], texts: string[], columns: Columns}} Index */
/** @typedef {Conversation | (Conversation | null)[]} Packed a conversation, or the two of a pair */

/** The order of the list: what went wrong comes first. */
const RANKS = [3, 2, 0, 1, 4];
/** Blocks that stay unpacked. */
const KEPT = 12;
/** Milliseconds without a key, and letters, after which transcripts are searched. */
const PATIENCE = 160;
const LETTERS = 3;

/** @param {string} id @returns {Promise<string>} */
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id)?.textContent ?? ''), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).text();
}

/** @returns {Promise<Source>} */
async function reportSource() {
  /** @type {Index} */
  const { head, cases, targets, variants, texts: words, columns: col } = JSON.parse(await unpacked('index'));
  const size = col.case.length;
  const kinds = head.pair && col.change ? col.change : col.outcome;
  const names = head.pair ? CHANGES : OUTCOMES;
  const whole = { ...head, total: size, tags: [...new Set(cases.flatMap(([, , , tags]) => tags))].sort() };
  const order = ordered();
  const differing = differingCases();
  const texts = cases.map(([, name, title, tags]) => [name, title, ...tags].join('\n').toLowerCase());
  const owners = [targets, variants].map(list => list.map(name => name.toLowerCase()));
  /** @type {Map<number, Promise<Packed[]>>} */
  const blocks = new Map();
  const search = { q: '', found: /** @type {Map<number, string>} */ (new Map()), run: 0, timer: 0 };
  let last = { key: '', view: order, counts: /** @type {Record<string, number>} */ ({}) };

  function ordered() {
    /** @type {number[][]} */
    const groups = [[], [], [], [], []];
    for (let i = 0; i < size; i++) groups[head.pair ? kinds[i] : RANKS[kinds[i]]].push(i);
    return groups.flat();
  }

  /** Is it one of a case that passed here and did not pass there? */
  function differingCases() {
    const seen = new Uint8Array(cases.length);
    col.case.forEach((place, i) => {
      const outcome = col.outcome[i];
      if (outcome < 4) seen[place] |= outcome < 2 ? 1 : 2;
    });
    return seen.map(bits => bits === 3 ? 1 : 0);
  }

  /** @param {number} i @returns {Row} */
  function row(i) {
    const [suite, name, title, tags] = cases[col.case[i]], before = OUTCOMES[col.before?.[i] ?? -1];
    return {
      at: i, suite, case: name, title, tags, target: targets[col.target[i]], variant: variants[col.variant[i]] ?? null,
      trial: col.trial[i], outcome: OUTCOMES[col.outcome[i]], aside: words[col.aside[i]], recovered_on: col.recovered_on[i],
      word: words[col.word[i]], length: words[col.length[i]], time: words[col.time[i]], why: words[col.why[i]], said: words[col.said[i]], same: words[col.same[i]], hit: search.found.get(i), has_body: col.body[i] >= 0, change: CHANGES[col.change?.[i] ?? -1],
      before: before ? { outcome: before, word: words[col.before_word?.[i] ?? 0] } : null, differs: col.differs?.[i],
    };
  }

  /** @param {Query} query */
  function look(query) {
    const q = query.q.trim().toLowerCase();
    if (q !== search.q) begin(q);
    const key = JSON.stringify([query, search.found.size]);
    if (last.key === key) return last;
    const why = query.why ? words.indexOf(query.why) : -1;
    const target = targets.indexOf(query.target), variant = variants.indexOf(query.variant);
    /** @type {Record<string, number>} */
    const counts = { all: 0, different: 0, again: 0 };
    const wanted = names.findIndex(name => name === query.show);
    const has = cases.map(([, , , tags], place) => (!query.tag || tags.includes(query.tag)) && (!q || texts[place].includes(q) ? 2 : 1));
    const view = order.filter(i => {
      const place = col.case[i];
      if (query.target && col.target[i] !== target || query.variant && col.variant[i] !== variant || query.why && !col.clusters[i].includes(why) || !has[place]) return false;
      if (q && has[place] !== 2 && !tells(i, q)) return false;
      const kind = kinds[i], name = names[kind];
      counts.all++;
      counts[name] = (counts[name] ?? 0) + 1;
      const isAgain = !head.pair && !!words[col.same[i]];
      counts.different += differing[place];
      counts.again += +isAgain;
      return wanted >= 0 ? kind === wanted : query.show === 'again' ? isAgain : query.show !== 'different' || differing[place] === 1;
    });
    return last = { key, view, counts };
  }

  /** @param {number} i @param {string} q */
  const tells = (i, q) => [words[col.why[i]].toLowerCase(), owners[0][col.target[i]], owners[1][col.variant[i]]].some(text => text?.includes(q)) || search.found.has(i);

  /** @param {string} q */
  function begin(q) {
    Object.assign(search, { q, found: new Map(), run: search.run + 1 });
    clearTimeout(search.timer);
    if (q.length >= LETTERS) search.timer = setTimeout(() => searchBlocks(q, search.run), PATIENCE);
  }

  /** Block by block, so that typing never waits. @param {string} q @param {number} run */
  async function searchBlocks(q, run) {
    /** @type {number[]} */
    const owner = [];
    col.body.forEach((place, i) => place >= 0 && (owner[place] = i));
    const count = Math.ceil(owner.length / head.block), written = JSON.stringify(q).slice(1, -1);
    let time = performance.now();
    source.changed?.(0);
    for (let n = 0; n < count && run === search.run; n++) {
      const text = await unpacked(`b${n}`);
      if (text.toLowerCase().includes(written)) {
        /** @type {Packed[]} */
        const bodies = JSON.parse(text);
        bodies.forEach((body, place) => {
          const said = transcript(body);
          if (said.toLowerCase().includes(q)) search.found.set(owner[n * head.block + place], around(said, q));
        });
      }
      if (performance.now() - time > 120 && run === search.run) {
        source.changed?.(Math.floor(100 * n / count));
        await new Promise(resume => setTimeout(resume));
        time = performance.now();
      }
    }
    if (run === search.run) source.changed?.(100);
  }

  /** @param {Packed | null} body @returns {string} */
  function transcript(body) {
    if (Array.isArray(body)) return body.map(transcript).join('\n');
    return (body?.turns ?? []).map(turn => [turn.prompt, turn.response, turn.thinking, ...(turn.tools ?? []).map(tool => `${tool.name}\n${tool.arguments}\n${tool.result}`)].join('\n')).join('\n');
  }

  /** @param {Address} address */
  function find(address) {
    const { target, variant, trial } = address;
    return col.case.findIndex((place, i) => targets[col.target[i]] === target && (variants[col.variant[i]] ?? null) === variant && col.trial[i] === trial && isCase(place, address));
  }

  /** @param {number} place @param {Address} address */
  const isCase = (place, address) => cases[place][1] === address.case && cases[place][0] === address.suite;

  /** @param {number} n */
  function block(n) {
    const kept = blocks.get(n) ?? unpacked(`b${n}`).then(text => JSON.parse(text));
    blocks.delete(n);
    blocks.set(n, kept);
    for (const old of blocks.keys()) if (blocks.size > KEPT) blocks.delete(old);
    return kept;
  }

  /** @type {Source} */
  const source = {
    head: () => whole,
    find: async (query, from, count) => {
      const { view, counts } = look(query);
      return { total: view.length, rows: view.slice(from, from + count).map(row), counts };
    },
    place: async (address, query) => look(query).view.indexOf(find(address)),
    conversation: async address => {
      const place = col.body[find(address)] ?? -1;
      if (place < 0) return null;
      const body = (await block(Math.floor(place / head.block)))[place % head.block];
      return Array.isArray(body) ? body[address.side === 'a' ? 0 : 1] : body;
    },
    siblings: async address => {
      /** @type {Row[]} */
      const rows = [];
      col.case.forEach((place, i) => isCase(place, address) && rows.push(row(i)));
      return rows;
    },
  };
  return source;
}

/** The words around what was sought in one line, without signs of Markdown unless they were sought. @param {string} text @param {string} q */
function around(text, q) {
  const at = text.toLowerCase().indexOf(q), from = Math.max(at - 400, text.lastIndexOf('\n', at - 40) + 1), part = text.slice(from, at + q.length + 200);
  const leaves = leavesOf(markdownOf(part) ?? []);
  const read = leaves.map(([low, high], n) => (/[\n|]/.test(part.slice(leaves[n - 1]?.[1] ?? low, low)) ? ' ' : '') + part.slice(low, high)).join('');
  const line = (read.toLowerCase().includes(q) ? read : part).replace(/\s+/g, ' '), place = line.toLowerCase().indexOf(q), start = place > 40 ? Math.min(place, line.indexOf(' ', place - 40) + 1) : 0;
  return `${from + start ? '… ' : ''}${line.slice(start, place + q.length + 120)} …`;
}

/** Addresses behind `#`: of a report. @returns {Addresses} */
function hashAddresses() {
  /** @param {string} hash */
  const read = hash => {
    const [path = '', ...search] = hash.slice(1).split('?');
    return placeOf(path, search.join('?'));
  };
  return {
    read: () => read(location.hash) ?? RUN,
    href: place => `#${pathOf(place)}`,
    of: link => hrefOf(link).startsWith('#/') ? read(hrefOf(link)) : null,
  };
}

reportSource().then(from => startApp(from, hashAddresses())).catch(error => {
  const work = byId('work');
  if (work) fill(work, h('p.empty', `The conversations in this file cannot be read: ${error.message}`)).hidden = false;
});
