/* Which page this is, and what it begins with. */

const PAGES = {
  run: async () => {
    const { run } = /** @type {Head} */ (pageData.head);
    dataSource = serverSource(`/data/runs/${run}`, pageData);
    runActs();
    await startApp(dataSource, pathAddresses(`/runs/${run}`));
    if (pageData.live && typeof pageData.live === 'object') follow(run, pageData.live);
  },
  compare: async () => {
    const pair = pageData.head?.pair, path = `/compare/${pair?.a}/${pair?.b}`;
    await startApp(serverSource(`/data${path}`, pageData), pathAddresses(path));
  },
  waiting: () => {
    useKeys([]);
    const look = () => fetch(location.href).then(() => location.reload(), () => setTimeout(look, 1500));
    setTimeout(look, 1500);
  },
  runs: startRuns,
  label: startLabels,
  judge: startJudge,
};

const opening = PAGES[/** @type {keyof typeof PAGES} */ (pageData.page)] ?? (() => useKeys([]));
Promise.resolve(opening()).then(() => {
  document.documentElement.dataset.ready = '1';
}).catch(error => tellTrouble(error.message));
