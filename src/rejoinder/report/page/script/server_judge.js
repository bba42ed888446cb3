/* The page of a judge: a test against human labels, and its progress. */

function startJudge() {
  const { run = '', check = '', labels = 0, acts, live, is_tested: isTested } = pageData, box = byId('acts');
  useKeys([]);
  if (live) return void setInterval(() => document.querySelector('dialog[open]') || location.reload(), 2000);
  if (!acts || !run || !labels || !box) return;
  box.prepend(buttonView(isTested ? 'Test it again' : 'Test the judge', () => askFirst('Test the judge?',
    h('p', `It is asked about the ${group3(labels)} ${labels === 1 ? 'reply' : 'replies'} with human labels. It costs what the judge costs.`), 'Test', async () => {
      await sendAct('POST', `/runs/${run}/judges/${check}/test`, {});
      location.reload();
    }), { class: isTested ? 'btn' : 'btn main' }));
}
