'use strict'
// The page gets the whole state whenever it has changed and makes the document like it. An object is chosen by the part of
// the URL behind #, as KIND/NAMESPACE/NAME, so that there is a link to each; its details are a stream of their own.

const link = ref => '#' + [ref.kind, ref.namespace, ref.name].map(encodeURIComponent).join('/')
const title = ref => ref.kind + ' ' + ref.name

// chosen is the object of the URL; undefined where it names a section.
function chosen() {
  const [kind, namespace, name] = location.hash.slice(1).split('/').map(decodeURIComponent)
  return name ? { kind, namespace, name } : undefined
}

// moment is a time of today, or one with its date.
function moment(time) {
  const at = new Date(time)
  return at.toDateString() === new Date().toDateString() ? clock(at) : at.toISOString().slice(0, 10) + ' ' + clock(at)
}

// Machines of a node of the tree, with their cluster.
function machinesOf(cluster) {
  const out = []
  const walk = node => { if (node.machine) out.push(node); for (const child of node.children || []) walk(child) }
  walk(cluster.tree)
  return out
}

// health of a machine: a colour and a word.
function health(node) {
  const phase = node.machine.phase || 'Pending'
  if (node.stuck) return ['bad', phase]
  if (!node.problem) return ['ok', phase]
  return [phase === 'Running' || phase === 'Failed' ? 'bad' : phase === 'Deleting' ? 'off' : 'busy', phase]
}

const engineKinds = { up: 'ok', down: 'off', image_locked: 'lock', unknown: 'bad', not_responding: 'bad', paused: 'bad' }
const vmKind = status => engineKinds[status] || 'busy'

let vms = new Map() // of all engines, by ID
let asked = false // whether every engine answers

// vmWords are what the engine says of the VM of a machine beside what the management cluster does.
function vmWords(machine) {
  if (!machine.vmID) return ''
  const vm = vms.get(machine.vmID)
  if (vm) return vm.difference ? `engine: ${words(vm.status)}; ${vm.difference}` : `engine: ${words(vm.status)}`
  return asked ? 'the engine had no such VM when it was asked last' : ''
}

function makeMachine() {
  const state = badge(), name = h('span.name'), vm = badge(), place = h('span.muted'), version = h('span.muted'), side = h('span.wide.small.muted'), problem = h('span.wide.problem')
  const node = h('a.machine', state, name, h('span', vm), place, version, side, problem), item = h('li', node)
  item.show = ({ machine, namespace }) => {
    const m = machine.machine
    attr(node, 'href', link({ kind: machine.kind, namespace, name: machine.name }))
    attr(node, 'aria-current', node.getAttribute('href') === location.hash)
    state.show(health(machine))
    text(name, machine.name)
    vm.show([m.vmStatus ? vmKind(m.vmStatus) : 'off', m.vmStatus ? 'VM ' + words(m.vmStatus) : 'no VM'])
    text(place, [(m.addresses || []).join(' '), m.host && 'on ' + m.host].filter(Boolean).join(' '))
    text(version, m.version || '')
    text(side, [vmWords(m), m.outdated && 'not up to date: ' + m.outdated].filter(Boolean).join('; '))
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
  node.show = ({ part, namespace, lets }) => {
    text(name, part.name)
    attr(name, 'href', link({ kind: part.kind, namespace, name: part.name }))
    attr(node, 'aria-label', title(part))
    text(kind, part.kind)
    state.show(part.stuck ? ['bad', 'needs you'] : part.problem ? ['busy', 'not ready'] : part.waiting ? ['busy', 'changing'] : ['ok', 'ready'])
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
    list(machines, some.map(machine => ({ machine, namespace })), m => m.machine.name, makeMachine)
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

function makeCluster() {
  const name = h('a'), state = badge(), paused = badge(), facts = h('span.muted.small'), problem = h('p.problem'), parts = h('div'), waitsTitle = h('h3', 'What waits for what'), waits = h('ul.waits')
  const node = h('section.panel.cluster', h('div.head', h('h2', name), state, paused, facts), problem, parts, h('div.part', waitsTitle, waits))
  paused.show(['off', 'paused'])
  node.show = ({ cluster, lets }) => {
    const ref = { kind: 'Cluster', namespace: cluster.namespace, name: cluster.name }
    text(name, cluster.name)
    attr(name, 'href', link(ref))
    attr(node, 'aria-label', title(ref))
    state.show(cluster.problem ? ['busy', cluster.phase || 'Pending'] : ['ok', 'Available'])
    show(paused, !!cluster.paused)
    text(facts, [cluster.namespace, cluster.endpoint, `control plane ${cluster.controlPlane.ready}/${cluster.controlPlane.desired}`, `workers ${cluster.workers.ready}/${cluster.workers.desired}`].filter(Boolean).join(' · '))
    text(problem, cluster.problem || '')
    show(problem, !!cluster.problem)
    list(parts, (cluster.tree.children || []).map(part => ({ part, namespace: cluster.namespace, lets })), p => p.part.kind + p.part.name, makePart)
    show(waitsTitle.parentNode, !!list(waits, cluster.waits || [], w => w.who.map(title).join() + title(w.for) + w.why, makeWait))
  }
  return node
}

function makeEngine() {
  const url = h('strong.mono'), state = badge(), facts = h('span.muted.small'), error = h('p.problem.stuck'), rows = h('ul.parts.small'), node = h('li', h('div.head', url, state, facts), error, rows)
  node.show = e => {
    text(url, e.url)
    state.show(e.error ? ['bad', 'does not answer'] : ['ok', 'answers'])
    text(facts, [count(e.vms.length, 'VM') + ' of ours', count(e.others, 'other'), e.at && 'at ' + moment(e.at)].filter(Boolean).join(', '))
    text(error, e.error || '')
    show(error, !!e.error)
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
  const time = h('time.muted'), warning = badge(), about = h('a'), what = h('span'), node = h('li', h('div.head', time, about, warning), what)
  warning.show(['bad', 'Warning'])
  node.show = e => {
    time.dateTime = e.time
    text(time, moment(e.time))
    text(about, title(e.about))
    attr(about, 'href', link(e.about))
    show(warning, !!e.warning)
    text(what, `${e.reason}: ${e.note}`)
  }
  return node
}

function trouble(state) {
  const all = (state.problems || []).map(p => [p, 'This page', 'is not whole: ' + p])
  if (state.manager) all.unshift(['manager', 'The manager', state.manager])
  for (const cluster of state.clusters) {
    for (const part of cluster.tree.children || [])
      if (part.stuck && !part.machine) all.push([part.kind + part.name, title(part), part.problem, link({ ...part, namespace: cluster.namespace })])
    for (const m of machinesOf(cluster))
      if (health(m)[0] === 'bad') all.push([cluster.namespace + m.name, m.name, m.problem.replaceAll('\n', ' '), link({ kind: m.kind, namespace: cluster.namespace, name: m.name })])
  }
  for (const e of state.engines || []) if (e.error) all.push([e.url, 'Engine ' + e.url, 'does not answer: ' + e.error])
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
  asked = !!state.engines && state.engines.length > 0 && state.engines.every(e => !e.error)
  text($('server'), state.server)
  text($('version'), state.version)
  text($('scope'), state.namespace ? 'namespace ' + state.namespace : 'all namespaces')
  document.body.classList.toggle('many', machines.length >= 100)
  const ready = machines.filter(m => !m.problem).length
  list($('figures'), [
    ['Clusters available', `${number(state.clusters.filter(c => !c.problem).length)} of ${number(state.clusters.length)}`, true],
    ['Machines ready', `${number(ready)} of ${number(machines.length)}`, true],
    ['Need you', number(machines.filter(m => m.stuck).length), true],
    ['Being deleted', number(machines.filter(m => m.machine.phase === 'Deleting').length)],
    ['Terraform runs', number(machines.reduce((sum, m) => sum + (m.machine.terraform?.runs || 0), 0))],
    ['Failed since a success', number(machines.reduce((sum, m) => sum + (m.machine.terraform?.failures || 0), 0))],
  ], f => f[0], figure)
  const wrong = trouble(state)
  document.title = `${wrong ? `(${number(wrong)}) ` : ''}olvmctl: ${count(state.clusters.length, 'cluster')}`
  show($('clusters-none'), !list($('cluster-list'), state.clusters.map(cluster => ({ cluster, lets })), c => c.cluster.namespace + '/' + c.cluster.name, makeCluster))
  show($('engines'), !!list($('engine-list'), state.engines || [], e => e.url, makeEngine))
  show($('events-none'), !list($('event-list'), state.events, e => e.time + title(e.about) + e.reason, makeEvent))
  text($('matches'), lets ? `${number(machines.filter(lets).length)} of ${count(machines.length, 'machine')}` : '')
  bury()
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }) // where there is no moveBefore
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
      const type = h('span'), why = h('span.why'), state = badge(), since = h('td'), row = h('tr', h('td', type, why), h('td', state), since)
      row.show = c => {
        text(type, c.type)
        text(why, c.status === 'True' && !negative.has(c.type) ? '' : [c.reason, c.message].filter(Boolean).join(': '))
        state.show([conditionKind(c), c.status])
        text(since, moment(c.lastTransitionTime))
      }
      return row
    })
  }
  return node
}

const signs = { create: '+', update: '~', delete: '-', replace: '-/+', import: '<=' }

function makeStep() {
  const time = h('time.muted'), what = h('strong'), state = badge(), who = h('span.muted.small'), message = h('div.message'), plan = h('ul.plan')
  const node = h('li.step', h('div.head', time, what, state, who), message, plan)
  node.show = s => {
    const kind = s.what === 'run' ? (s.state === 'Succeeded' ? 'ok' : 'bad') : s.what === 'event' ? (s.state === 'Warning' ? 'bad' : 'off') : conditionKind({ type: s.name, status: s.state })
    time.dateTime = s.time
    text(time, moment(s.time))
    text(what, s.what === 'run' ? 'Terraform ' + s.name.toLowerCase() : s.name)
    state.show([kind, s.what === 'run' ? `${s.state.toLowerCase()} in ${s.seconds.toFixed(0)} s` : s.state])
    show(state, s.what !== 'event' || s.state === 'Warning')
    text(who, s.kind)
    text(message, [s.reason, s.message].filter(Boolean).join(': '))
    show(message, message.textContent !== '')
    show(plan, !!list(plan, s.changes || [], c => c, () => {
      const line = h('li.change')
      line.show = c => { const [action, ...address] = c.split(' '); attr(line, 'data-action', action); text(line, `${(signs[action] || action).padEnd(4)}${address.join(' ')}`) }
      return line
    }))
  }
  return node
}

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
  facts($('details-facts'), [
    ['Namespace', d.namespace],
    ['Engine', d.engine && [words(d.engine.status), d.engine.host && 'on ' + d.engine.host, d.engine.waits && 'settings wait for its next start', d.engine.difference].filter(Boolean).join(', ')],
    ['Drift', d.drift && `${d.drift.error || (d.drift.differences || []).join('; ') || 'none'}, at ${moment(d.drift.checkTime)}`],
  ].filter(([, value]) => value))
  list($('details-conditions'), d.objects || [], title, makeConditions)
  list($('details-steps'), d.steps, s => [s.time, s.what, s.kind, s.name, s.state, s.reason].join(), makeStep)
  bury()
}

$('search').onsubmit = event => event.preventDefault()
$('filter').oninput = () => { if (current) later() }
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
