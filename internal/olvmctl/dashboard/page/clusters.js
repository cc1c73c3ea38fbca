'use strict'
// The page gets the whole state whenever it has changed and makes the document like it. An object is chosen by the part of
// the URL behind #, as KIND/NAMESPACE/NAME, so that there is a link to each; its details are a stream of their own.

const link = ref => '#' + [ref.kind, ref.namespace, ref.name].map(encodeURIComponent).join('/')
const title = ref => ref.kind + ' ' + ref.name

// chosen is the object of the URL; undefined if it names a section, or nothing.
function chosen() {
  try {
    const [kind, namespace, name] = location.hash.slice(1).split('/').map(decodeURIComponent)
    return name ? { kind, namespace, name } : undefined
  } catch { return undefined } // somebody has typed a % in it
}

// The connection is live if the page is told of everything: what has told nothing for long may be gone.
liveness = () => {
  if (!current) return ['ok', 'Live']
  if (current.away) return ['bad', `API server unreachable since ${clock(current.awaySince)}`]
  const lost = current.watches.filter(w => w.state === 'lost')
  return lost.length ? ['busy', `${lost.length} of ${count(current.watches.length, 'watch', 'watches')} lost`] : ['ok', 'Live']
}

// Machines of a node of the tree, with their cluster.
function machinesOf(cluster) {
  const out = []
  const walk = node => { if (node.machine) out.push(node); for (const child of node.children || []) walk(child) }
  walk(cluster.tree)
  return out
}

const engineKinds = { up: 'ok', down: 'off', image_locked: 'lock', unknown: 'bad', not_responding: 'bad', paused: 'bad', gone: 'bad' }
const vmKind = status => engineKinds[status] || 'busy'

let vms = new Map() // of all engines, by ID
let answering = new Set() // the URLs of the engines that answer

// vmWords are what the engine says of the VM of a machine beside what the management cluster does.
function vmWords(machine, cluster) {
  if (!machine.vmID) return ''
  const vm = vms.get(machine.vmID)
  if (vm) return vm.difference ? `engine: ${words(vm.status)}; ${vm.difference}` : `engine: ${words(vm.status)}`
  return answering.has(cluster.engine) ? 'the engine had no such VM when it was asked last' : ''
}

function makeMachine() {
  const state = badge(), name = h('span.name'), vm = badge(), place = h('span.muted'), version = h('span.muted'), side = h('span.wide.small.muted'), problem = h('span.wide.problem')
  const node = h('a.machine', state, name, h('span', vm), place, version, side, problem), item = h('li', node)
  item.show = ({ machine, cluster }) => {
    const m = machine.machine
    attr(node, 'href', link({ kind: machine.kind, namespace: cluster.namespace, name: machine.name }))
    attr(node, 'aria-current', node.getAttribute('href') === location.hash)
    state.show([cluster.kinds[machine.kind + '/' + machine.name] || 'off', m.phase || 'Pending'])
    text(name, machine.name)
    vm.show([m.vmStatus ? vmKind(m.vmStatus) : 'off', m.vmStatus ? 'VM ' + words(m.vmStatus) : 'no VM'])
    const seen = vmWords(m, cluster), same = seen.startsWith('engine: ') && !seen.includes(';')
    text(place, [(m.addresses || []).join(' '), m.host && 'on ' + m.host, same && seen].filter(Boolean).join(' · '))
    text(version, m.version || '')
    text(side, [!same && seen, m.outdated && 'not up to date: ' + m.outdated].filter(Boolean).join('; '))
    show(side, side.textContent !== '')
    text(problem, machine.problem || '')
    problem.classList.toggle('stuck', !!machine.stuck)
    show(problem, !!machine.problem)
  }
  return item
}

// Beyond so many machines a part shows those with a problem first; the filter finds the others.
const most = 300

// makePart shows what a cluster consists of: a control plane, a MachineDeployment, a lone machine.
function makePart() {
  const name = h('a'), kind = h('span.muted.small'), state = badge(), summary = h('span.muted.small'), problem = h('p.problem'), waiting = h('p.problem'), rest = h('p.empty'), machines = h('ul.machines')
  const node = h('section.part', h('div.head', h('h3', name), kind, state, summary), problem, waiting, rest, machines)
  node.show = ({ part, cluster, lets }) => {
    text(name, part.name)
    attr(name, 'href', link({ kind: part.kind, namespace: cluster.namespace, name: part.name }))
    attr(node, 'aria-label', title(part))
    text(kind, part.kind)
    state.show(part.stuck ? ['bad', 'in trouble'] : part.problem ? ['busy', 'not ready'] : part.waiting ? ['busy', 'changing'] : ['ok', 'ready'])
    text(summary, part.machine ? '' : part.summary)
    text(problem, part.problem || '')
    problem.classList.toggle('stuck', !!part.stuck)
    show(problem, !!part.problem && !part.machine)
    text(waiting, part.waiting || '')
    show(waiting, !part.problem && !!part.waiting)
    const all = part.machine ? [part] : part.children || [], matching = lets ? all.filter(lets) : all
    const some = matching.length > most ? [...matching.filter(m => m.problem), ...matching.filter(m => !m.problem)].slice(0, most) : matching
    text(rest, some.length < matching.length ? `Shown are ${number(some.length)} of ${number(matching.length)}, those with a problem first.` : all.length && !matching.length ? 'None that match' : '')
    show(rest, rest.textContent !== '')
    list(machines, some.map(machine => ({ machine, cluster })), m => m.machine.name, makeMachine)
  }
  return node
}

function makeWait() {
  const who = h('span'), arrow = h('span.arrow', ' waits for '), what = h('span'), why = h('span.muted.small'), node = h('li', who, arrow, what, ' ', why)
  node.show = w => {
    refs(who, w.who)
    refs(what, [w.for])
    text(arrow, w.who.length > 1 ? ' wait for ' : ' waits for ')
    text(why, '(' + w.why.replaceAll('\n', ' ') + ')')
  }
  return node
}

// refs are links to objects; what is no object is a text.
function refs(parent, all) {
  const shown = all.slice(0, 4).map((ref, i) => ({ ref, last: i === Math.min(all.length, 4) - 1 }))
  if (all.length > shown.length) shown.push({ ref: { kind: 'and', name: number(all.length - shown.length) + ' more' }, last: true })
  list(parent, shown, s => title(s.ref), () => {
    const a = h('a'), plain = h('strong'), comma = h('span'), node = h('span', a, plain, comma)
    node.show = ({ ref, last }) => {
      if (ref.namespace) attr(a, 'href', link(ref))
      text(ref.namespace ? a : plain, ref.name === ref.kind ? ref.kind : title(ref))
      show(a, !!ref.namespace)
      show(plain, !ref.namespace)
      text(comma, last ? '' : ', ')
    }
    return node
  })
}

// Clusters that somebody has opened or closed, by key. One alone is open, and so is one in which the filter finds something.
const opened = new Map()
const keyOf = cluster => cluster.namespace + '/' + cluster.name

// makeCluster shows a line of the overview, and below it what the cluster consists of.
function makeCluster() {
  const toggle = h('button.toggle'), name = h('a'), paused = badge(), state = badge(), age = when(), why = h('p.problem')
  const cells = ['Namespace', 'Version', 'Control plane', 'Workers'].map(label => { const td = h('td'); attr(td, 'data-label', label); return td })
  const parts = h('div'), waitsTitle = h('h3', 'What waits for what'), waits = h('ul.waits')
  const first = h('th', toggle, name), row = h('tr.line', first, ...cells, h('td.state', state, paused), h('td.age', age))
  const whyRow = h('tr.why', h('td', why)), body = h('td', parts, h('div.part', waitsTitle, waits)), below = h('tr.below', body)
  const node = h('tbody.cluster', row, whyRow, below)
  first.scope = 'row'
  toggle.type = 'button'
  for (const wide of [whyRow.firstChild, body]) wide.colSpan = 7
  paused.show(['off', 'paused'])
  node.show = ({ cluster, lets, isOpen }) => {
    text(name, cluster.name)
    attr(name, 'href', link({ kind: 'Cluster', namespace: cluster.namespace, name: cluster.name }))
    attr(name, 'aria-current', name.getAttribute('href') === location.hash)
    attr(toggle, 'aria-expanded', isOpen)
    attr(toggle, 'aria-label', `${isOpen ? 'Close' : 'Open'} ${cluster.name}`)
    toggle.onclick = () => { opened.set(keyOf(cluster), !isOpen); update(current) }
    const versions = cluster.desiredVersion && cluster.desiredVersion !== cluster.version ? `${cluster.version} → ${cluster.desiredVersion}` : cluster.version || ''
    const replicas = r => `${r.ready}/${r.desired}`
    ;[cluster.namespace, versions, replicas(cluster.controlPlane), replicas(cluster.workers)].forEach((value, i) => text(cells[i], value))
    state.show([cluster.kind, cluster.state])
    show(paused, !!cluster.paused && cluster.state !== 'Paused')
    age.show(cluster.created)
    text(why, cluster.troubles?.length ? cluster.troubles.map(t => `${title(t.about)}: ${t.what}`).join('\n') : cluster.problem || '')
    why.classList.toggle('stuck', cluster.kind === 'bad')
    show(whyRow, !isOpen && why.textContent !== '')
    show(below, isOpen)
    list(parts, (isOpen ? cluster.tree.children || [] : []).map(part => ({ part, cluster, lets })), p => p.part.kind + '/' + p.part.name, makePart)
    show(waitsTitle.parentNode, !!list(waits, isOpen ? cluster.waits || [] : [], w => w.who.map(title).join() + title(w.for) + w.why, makeWait))
  }
  return node
}

// showClusters shows the overview; matching clusters alone if the filter has something.
function showClusters(clusters, machines, lets) {
  const letsCluster = filter(c => [c.name, c.namespace, c.version, c.state, c.endpoint, c.problem].filter(Boolean))
  const found = c => machinesOf(c).some(m => lets(m))
  const shown = clusters.filter(c => !lets || letsCluster(c) || found(c))
  const isOpen = c => opened.get(keyOf(c)) ?? (clusters.length === 1 || !!lets && found(c))
  const items = shown.map(cluster => ({ cluster, isOpen: isOpen(cluster), lets: lets && found(cluster) ? lets : null }))
  list($('cluster-list'), items, i => keyOf(i.cluster), makeCluster)
  show($('overview'), clusters.length > 0)
  show($('clusters-none'), shown.length === 0)
  text($('clusters-none'), clusters.length ? 'No cluster, and no machine, matches.' : current.away ? 'No cluster has been seen.' : 'There are no clusters.')
  const all = items.every(i => i.isOpen)
  text($('toggle-all'), all ? 'Close all' : 'Open all')
  show($('toggle-all'), items.length > 1)
  $('toggle-all').onclick = () => { for (const c of shown) opened.set(keyOf(c), !all); update(current) }
  const some = lets ? machines.filter(lets).length : 0
  text($('matches'), lets ? `${number(some)} of ${count(machines.length, 'machine')}` + (clusters.length > 1 ? `, ${number(shown.length)} of ${count(clusters.length, 'cluster')}` : '') : '')
}

function makeWatch() {
  const kind = h('span'), state = badge(), since = when('time.muted'), why = h('span.muted'), node = h('li', h('div.head', kind, state, since), why)
  node.show = w => {
    text(kind, w.kind)
    state.show([{ live: 'ok', lost: 'bad' }[w.state] || 'off', w.state])
    if (w.since) since.show(w.since)
    show(since, !!w.since)
    text(why, w.why || '')
    show(why, !!w.why)
  }
  return node
}

function makeEngine() {
  const url = h('strong.mono'), state = badge(), facts = h('span.muted.small'), error = h('p.problem.stuck'), rows = h('ul.parts.small'), node = h('li', h('div.head', url, state, facts), error, rows)
  node.show = e => {
    text(url, e.url)
    state.show(current.away || e.unasked ? ['off', 'not asked'] : e.error ? ['bad', 'does not answer'] : e.at ? ['ok', 'answers'] : ['busy', 'not asked yet'])
    text(facts, [count(e.vms.length, 'VM') + ' of ours', count(e.others, 'other'), e.at && 'at ' + date(e.at)].filter(Boolean).join(', '))
    text(error, e.unasked ? 'The management cluster does not give its credentials: ' + e.unasked : e.error || '')
    error.classList.toggle('stuck', !e.unasked)
    show(error, error.textContent !== '')
    list(rows, e.vms, v => v.id, () => {
      const a = h('a'), state = badge(), rest = h('span.muted'), row = h('li', a, ' ', state, ' ', rest)
      row.show = v => {
        text(a, v.name)
        attr(a, 'href', link({ kind: 'OLVMMachine', namespace: v.owner.namespace, name: v.owner.name }))
        state.show([vmKind(v.status), words(v.status)])
        text(rest, [v.host && 'on ' + v.host, v.waits && 'settings wait for its next start', v.difference].filter(Boolean).join(', '))
      }
      return row
    })
  }
  return node
}

function makeEvent() {
  const time = when('time.muted'), warning = badge(), about = h('a'), what = h('span'), node = h('li', h('div.head', time, about, warning), what)
  warning.show(['bad', 'Warning'])
  node.show = e => {
    time.show(e.time)
    text(about, title(e.about))
    attr(about, 'href', link(e.about))
    show(warning, !!e.warning)
    text(what, `${e.reason}: ${e.note}`)
  }
  return node
}

// trouble shows what is wrong with the page itself, and the troubles of the clusters.
function trouble(state) {
  const all = (state.problems || []).map(p => [p, 'This page', 'is not whole: ' + p])
  if (state.away) all.unshift(['away', 'API server ' + state.server, `does not answer since ${clock(state.awaySince)}; all that is shown is from before: ${state.away}`])
  for (const t of state.troubles) all.push([link(t.about), t.about.name ? title(t.about) : t.about.kind, t.what.replaceAll('\n', ' '), t.about.namespace && link(t.about)])
  return troubles(all)
}

// searched is what the filter looks at in a machine.
function searched(m) {
  const d = m.machine
  return [m.name, d.phase, d.version, d.node, d.vmID, d.vmStatus, d.host, d.inventory, m.problem, ...(d.addresses || [])].filter(Boolean)
}

function update(state) {
  const focused = document.activeElement, machines = state.clusters.flatMap(machinesOf), lets = filter(searched)
  vms = new Map((state.engines || []).flatMap(e => e.vms).map(v => [v.id, v]))
  answering = new Set((state.engines || []).filter(e => e.at && !e.error && !e.unasked).map(e => e.url))
  text($('server'), state.server)
  text($('version'), state.version)
  text($('scope'), state.namespace ? 'namespace ' + state.namespace : 'all namespaces')
  document.body.classList.toggle('many', machines.length >= 100)
  const wrong = trouble(state)
  list($('figures'), [
    { name: 'Clusters', counts: state.counts, words: ['in trouble', 'changing', 'off', 'available'] },
    { name: 'Machines', counts: state.machines, words: ['in trouble', 'changing', 'going', 'ready'] },
    { name: 'In trouble', value: number(wrong) },
    { name: 'Terraform runs', value: number(machines.reduce((sum, m) => sum + (m.machine.terraform?.runs || 0), 0)) },
  ], f => f.name, makeFigure)
  document.title = `${wrong ? `(${number(wrong)}) ` : ''}olvmctl: ${count(state.clusters.length, 'cluster')}`
  showClusters(state.clusters, machines, lets)
  list($('watch-list'), state.watches, w => w.kind, makeWatch)
  show($('engines'), !!list($('engine-list'), state.engines || [], e => e.url, makeEngine))
  show($('events-none'), !list($('event-list'), state.events, e => e.time + title(e.about) + e.reason, makeEvent))
  bury()
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }) // where there is no moveBefore
}

// makeFigure shows a number, or how many of a number are in which state.
function makeFigure() {
  const dt = h('dt'), total = h('span'), counts = h('span.counts'), node = h('div', dt, h('dd', total, counts))
  node.classList.add('main')
  node.show = f => {
    text(dt, f.name)
    text(total, f.counts ? number(f.counts.total) : f.value)
    const parts = f.counts ? ['bad', 'busy', 'off', 'ok'].map((kind, i) => ({ kind, words: `${number(f.counts[kind])} ${f.words[i]}`, n: f.counts[kind] })).filter(p => p.n) : []
    list(counts, parts, p => p.kind, () => { const one = badge(); const write = one.show; one.show = p => write([p.kind, p.words]); return one })
  }
  return node
}

// Conditions that say something bad, or that something goes on, when they are true.
const negative = new Set(['Deleting', 'Paused', 'Updating', 'DriftDetected', 'RollingOut', 'ScalingUp', 'ScalingDown', 'Remediating'])
function conditionKind(c) {
  if (negative.has(c.type)) return { True: 'busy', False: 'off' }[c.status] || 'off'
  return { True: 'ok', False: 'bad' }[c.status] || 'busy'
}

function makeConditions() {
  const name = h('caption'), rows = h('tbody'), heads = ['Condition', 'Status', 'Since'].map(t => { const th = h('th', t); th.scope = 'col'; return th })
  const node = h('table.conditions', name, h('thead', h('tr', ...heads)), rows)
  node.show = object => {
    text(name, title(object))
    list(rows, object.conditions, c => c.type, () => {
      const type = h('span'), why = h('span.why'), state = badge(), since = when(), row = h('tr', h('td', type, why), h('td', state), h('td', since))
      row.show = c => {
        text(type, c.type)
        text(why, c.status === 'True' && !negative.has(c.type) ? '' : [c.reason, c.message].filter(Boolean).join(': '))
        state.show([conditionKind(c), c.status])
        since.show(c.lastTransitionTime)
      }
      return row
    })
  }
  return node
}

const signs = { create: '+', update: '~', delete: '-', replace: '-/+', import: '<=' }

function makeStep() {
  const time = when('time.muted'), what = h('strong'), state = badge(), who = h('span.muted.small'), message = h('div.message'), plan = h('ul.plan')
  const node = h('li.step', h('div.head', time, what, state, who), message, plan)
  node.show = s => {
    const kind = s.what === 'run' ? (s.state === 'Succeeded' ? 'ok' : 'bad') : s.what === 'event' ? (s.state === 'Warning' ? 'bad' : 'off') : conditionKind({ type: s.name, status: s.state })
    time.show(s.time)
    text(what, s.what === 'run' ? 'Terraform ' + s.name.toLowerCase() : s.name)
    state.show([kind, s.what === 'run' ? `${s.state.toLowerCase()} in ${s.seconds.toFixed(0)} s` : s.state])
    show(state, s.what !== 'event' || s.state === 'Warning')
    text(who, s.kind)
    text(message, [s.reason, s.message].filter(Boolean).join(': '))
    show(message, message.textContent !== '')
    show(plan, !!list(plan, s.changes || [], c => c, makeChange))
  }
  return node
}

function makeChange() {
  const line = h('li.change')
  line.show = c => { const [action, ...address] = c.split(' '); attr(line, 'data-action', action); text(line, `${(signs[action] || action).padEnd(4)}${address.join(' ')}`) }
  return line
}

// copier makes a button that copies what a node shows: what is not visible there is not copied either.
function copier(node) {
  const button = h('button.copy', 'Copy')
  let back
  button.type = 'button'
  button.onclick = async () => {
    try { await navigator.clipboard.writeText(node.textContent); text(button, 'Copied') }
    catch { getSelection().selectAllChildren(node); text(button, 'Press Ctrl-C') }
    clearTimeout(back)
    back = setTimeout(() => text(button, 'Copy'), 2000)
  }
  return button
}

function makeCommand() {
  const what = h('span'), line = h('code'), node = h('li', what, h('div.copied', line, copier(line)))
  node.show = c => { text(what, c.what); text(line, c.line) }
  return node
}

function makeYAML() {
  const name = h('summary'), content = h('pre'), copy = copier(content), node = h('details.yaml', name, h('div.copied', content, copy))
  node.show = o => { text(name, 'YAML of ' + title(o)); text(content, o.yaml); attr(copy, 'aria-label', 'Copy the YAML of ' + title(o)) }
  return node
}

function makeFact() {
  const dt = h('dt'), value = h('span'), time = when(), node = h('div', dt, h('dd', value, time))
  node.show = f => {
    text(dt, f.name)
    text(value, f.value || '')
    if (f.time) time.show(f.time)
    show(time, !!f.time)
  }
  return node
}

function showRun(run) {
  show($('details-run'), !!run)
  if (!run) return
  const seconds = (new Date(run.completionTime) - new Date(run.startTime)) / 1000
  text($('run-what'), `${run.operation} ${run.result.toLowerCase()} in ${seconds.toFixed(0)} s: ${run.added || 0} created, ${run.changed || 0} updated, ${run.destroyed || 0} deleted,`)
  const time = runTime ??= $('run-what').parentNode.appendChild(when())
  time.show(run.completionTime)
  const changes = run.changes || [], more = (run.changeCount || 0) - changes.length
  show($('run-plan'), !!list($('run-plan'), changes, c => c, makeChange))
  text($('run-more'), more > 0 ? `and ${number(more)} more` : '')
  show($('run-more'), more > 0)
}
let runTime

let following, followed
function follow() {
  const of = chosen(), key = of && link(of)
  if (key === followed && following?.readyState !== EventSource.CLOSED) return
  following?.close()
  followed = key
  show($('details-none'), !of)
  show($('details-body'), false)
  text($('details-title'), of ? title(of) : 'Details')
  if (!of) return
  following = new EventSource('details?' + new URLSearchParams(of))
  following.onmessage = message => { showDetails(JSON.parse(message.data)) }
}

function showDetails(d) {
  show($('details-none'), !d.found)
  text($('details-none'), d.found ? '' : 'There is no such object now, or none that is shown.')
  show($('details-body'), d.found)
  const engine = d.engine && [words(d.engine.status), d.engine.host && 'on ' + d.engine.host, d.engine.waits && 'settings wait for its next start', d.engine.difference].filter(Boolean).join(', ')
  list($('details-facts'), [
    { name: 'Namespace', value: d.namespace },
    ...d.facts || [],
    { name: 'In the engine', value: engine },
    { name: 'Drift', value: d.drift && (d.drift.error || (d.drift.differences || []).join('; ') || 'none') },
    { name: 'Drift check', time: d.drift?.checkTime },
  ].filter(f => f.value || f.time), f => f.name, makeFact)
  show($('details-next'), !!list($('details-commands'), d.commands || [], c => c.what + c.line, makeCommand))
  showRun(d.lastRun)
  list($('details-conditions'), d.objects || [], title, makeConditions)
  list($('details-yaml'), d.objects || [], title, makeYAML)
  list($('details-steps'), d.steps, s => [s.time, s.what, s.kind, s.name, s.state, s.reason].join(), makeStep)
  bury()
}

$('search').onsubmit = event => event.preventDefault()
$('filter').oninput = () => { opened.clear(); if (current) later() }
onhashchange = () => {
  follow()
  if (current) later()
  if (chosen() && matchMedia('(max-width: 1059px)').matches) $('details').scrollIntoView()
}
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return follow()
  following?.close()
})
connect()
follow()
