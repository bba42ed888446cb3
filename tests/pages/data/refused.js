/* What a page of ours has to refuse; the names of what it did not. */
async port => {
  await new Promise(done => setTimeout(done)); // what a debugger calls at once may do more than a page may
  const made = tag => document.body.appendChild(document.createElement(tag));
  const unless = done => {
    if (!done) throw Error('refused');
  };
  const tried = {
    markup: () => { made('b').innerHTML = '<i>x</i>'; },
    outer: () => { made('b').outerHTML = '<i>x</i>'; },
    insert: () => made('b').insertAdjacentHTML('beforeend', '<i>x</i>'),
    write: () => document.write('<b>x</b>'),
    evaluate: () => eval('1'),
    compile: () => new Function('return 1')(),
    timer: () => setTimeout('window.ran = 1'),
    policy: () => trustedTypes.createPolicy('ours', { createHTML: text => text }),
    script: () => { const one = made('script'); one.text = 'window.ran = 1'; unless(window.ran); },
    source: () => { made('script').src = 'data:text/javascript,window.ran=1'; },
    handler: () => { const one = made('b'); one.setAttribute('onclick', 'window.ran = 1'); one.click(); unless(window.ran); },
    style: () => { const one = made('b'); one.setAttribute('style', 'color: red'); unless(one.style.color === 'red'); },
    frame: () => { made('iframe').srcdoc = '<b>x</b>'; },
    request: () => fetch(`http://127.0.0.1:${port}/`),
    beacon: () => unless(navigator.sendBeacon(`http://127.0.0.1:${port}/`) && false),
    socket: () => new Promise((opened, failed) => { const one = new WebSocket(`ws://127.0.0.1:${port}/`); one.onopen = opened; one.onerror = () => failed(Error('refused')); }),
    image: () => new Promise((loaded, failed) => { const one = new Image(); one.onload = loaded; one.onerror = () => failed(Error('refused')); one.src = `http://127.0.0.1:${port}/x.png`; }),
  };
  const done = [];
  for (const [name, act] of Object.entries(tried)) {
    try {
      await act();
      done.push(name);
    } catch {
      continue;
    }
  }
  return done;
}
