/* The source of the viewer: the server. The first answer is in the page already. */

/** Milliseconds without a key after which transcripts are searched. */
const WAIT = 160;

/** @param {string} base @param {First} given @returns {Source} */
function serverSource(base, given) {
  const head = /** @type {Head} */ ({ ...given.head, tags: given.tags ?? [] });
  let found = given.found ?? null, sought = given.query?.q ?? '', number = 0;
  /** @param {Query} query */
  const isFirst = query => JSON.stringify({ ...NO_QUERY, ...given.query }) === JSON.stringify({ ...NO_QUERY, ...query, view: '' });
  /** @param {Address} address */
  const named = ({ suite, case: name, target, variant, trial, side }) => ({ suite, case: name, target, variant, trial, side });
  /** Filters beside an address, which has a target and a variant of its own. @param {Query} query */
  const listed = query => Object.fromEntries(Object.entries(query).map(([name, value]) => [`list_${name}`, value]));

  return {
    head: () => head,
    find: async (query, from, count) => {
      const run = ++number;
      if (found && isFirst(query) && !from && (found.rows.length >= count || found.rows.length === found.total)) {
        const answer = found;
        found = null;
        return answer;
      }
      found = null;
      if (query.q !== sought) {
        sought = query.q;
        await new Promise(resume => setTimeout(resume, WAIT));
        if (run !== number) return { total: 0, rows: [], counts: {} };
      }
      return fetchData(`${base}/rows`, { ...query, from, count });
    },
    place: async (address, query) => (await fetchData(`${base}/place`, { ...named(address), ...listed(query) })).place,
    conversation: async address => {
      const kept = given.conversation;
      if (kept && !address.side && isSame(addressOf(kept.row), address)) return kept;
      return fetchData(`${base}/conversation`, named(address));
    },
    siblings: address => fetchData(`${base}/siblings`, named(address)),
  };
}

/** Addresses behind a path: of the viewer. @param {string} prefix @returns {Addresses} */
function pathAddresses(prefix) {
  /** @param {{pathname: string, search: string}} url */
  const read = url => placeOf(url.pathname.slice(prefix.length), url.search);
  return {
    read: () => read(location) ?? RUN,
    href: place => prefix + pathOf(place).replace(/^\/(?=$|\?)/, ''),
    of: link => {
      const url = new URL(hrefOf(link), location.href);
      return url.origin === location.origin && `${url.pathname}/`.startsWith(`${prefix}/`) ? read(url) : null;
    },
  };
}
