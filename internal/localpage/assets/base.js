'use strict'
// What all pages share: elements are kept by key, so that focus, scroll positions, selections and open details survive.
// Names come from users: they are only ever text.

const $ = id => document.getElementById(id)

// h makes an element: h('p.muted', 'text', child).
function h(what, ...kids) {
  const [tag, ...classes] = what.split('.')
  const node = document.createElement(tag)
  if (classes.length) node.className = classes.join(' ')
  node.append(...kids)
  return node
}

// visible is a text without what turns the order of others round or is not seen: a name must not look like another one.
function visible(value) {
  return String(value).replace(/[\p{Cc}\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0\u2800]/gu, c => c === '\n' || c === '\t' ? c : '\ufffd')
}

// Writing what is there already would lose selections and make work for the browser.
function text(node, value) { value = visible(value); if (node.textContent !== value) node.textContent = value }
function attr(node, name, value) { value = String(value); if (node.getAttribute(name) !== value) node.setAttribute(name, value) }
function show(node, visible) { if (node.hidden === visible) node.hidden = !visible }

let doomed = [] // elements that go at the end of an update, unless another list has taken them

// list makes the children of parent be those of items, in order. make gets an item and returns an element with a method
// show(item). Lists that share nodes hand over their elements: a VM that moves to another host stays the same element.
function list(parent, items, key, make, nodes = parent.nodes ??= new Map()) {
  const order = [], taken = new Set()
  for (const item of items) {
    let k = key(item)
    while (taken.has(k)) k += '+'
    taken.add(k)
    let node = nodes.get(k)
    if (!node) {
      node = make(item)
      node.key = k
      nodes.set(k, node)
    }
    node.show(item)
    order.push(node)
  }
  const wanted = new Set(order)
  let at = parent.firstElementChild
  for (const node of order) {
    while (at && !wanted.has(at)) at = at.nextElementSibling
    if (node === at) at = at.nextElementSibling
    else if (parent.moveBefore && node.isConnected && parent.isConnected) parent.moveBefore(node, at) // keeps the focus
    else parent.insertBefore(node, at)
  }
  for (const child of parent.children) if (child.key && !wanted.has(child)) doomed.push([parent, child, nodes]) // others stay
  return items.length
}

function bury() {
  for (const [parent, child, nodes] of doomed) {
    if (child.parentNode !== parent) continue
    child.remove()
    if (nodes.get(child.key) === child) nodes.delete(child.key)
  }
  doomed = []
}

// plain makes an element whose show writes text.
function plain(what, say = item => item) {
  return () => {
    const node = h(what)
    node.show = item => text(node, say(item))
    return node
  }
}

function number(n) { return n.toLocaleString('en') }
function count(n, one, many = one + 's') { return number(n) + ' ' + (n === 1 ? one : many) }
function size(bytes) {
  for (const [unit, name] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']])
    if (bytes >= unit) return (bytes / unit).toLocaleString('en', { maximumFractionDigits: 1 }) + ' ' + name
  return bytes + ' B'
}
// age is a time as people say it, from now.
function age(time, now = Date.now()) {
  const seconds = Math.round((now - new Date(time)) / 1000), past = Math.abs(seconds)
  const [n, unit] = past < 60 ? [past, 's'] : past < 3600 ? [past / 60, 'min'] : past < 172800 ? [past / 3600, 'h'] : [past / 86400, 'days']
  if (past < 5) return 'just now'
  return seconds < 0 ? `in ${Math.floor(n)} ${unit}` : `${Math.floor(n)} ${unit} ago`
}
// date is a time with its date and zone.
function date(time) {
  return new Date(time).toLocaleString('sv') + ' ' + (new Date(time).toTimeString().match(/GMT[+-]?\d*/) || [''])[0]
}
// when makes an element that says how long ago a time was, and its date to those who point at it. It stays right.
function when(what = 'time') {
  const node = h(what)
  node.classList.add('when')
  node.show = time => { attr(node, 'datetime', time); attr(node, 'title', date(time)); text(node, age(time)) }
  return node
}
setInterval(() => {
  if (!document.hidden) for (const node of document.querySelectorAll('.when')) text(node, age(node.dateTime))
}, 5000)
function clock(time) { return new Date(time).toTimeString().slice(0, 8) }
function words(status) { return status.replaceAll('_', ' ') }

function badge() {
  const mark = h('span.mark'), label = h('span'), node = h('span.badge', mark, label)
  mark.ariaHidden = 'true'
  node.show = ([kind, words]) => { attr(node, 'data-kind', kind); text(label, words) }
  return node
}

function meter(what) {
  const fill = h('div.fill'), track = h('div.track', fill), label = h('span'), node = h('div.meter', track, label)
  track.role = 'meter'
  track.ariaValueMin = 0
  node.show = (used, total) => {
    const share = total ? Math.min(100, 100 * used / total) : 0
    const words = `${size(used)} of ${size(total)}`
    attr(track, 'aria-label', what)
    attr(track, 'aria-valuemax', total)
    attr(track, 'aria-valuenow', Math.min(used, total))
    attr(track, 'aria-valuetext', words)
    if (fill.style.width !== share + '%') fill.style.width = share + '%'
    node.classList.toggle('full', share > 90)
    text(label, words)
  }
  return node
}

// facts shows pairs of names and values, without those that are empty.
function facts(dl, pairs) {
  list(dl, pairs.filter(([, value]) => value !== undefined && value !== ''), p => p[0], () => {
    const dt = h('dt'), dd = h('dd'), node = h('div', dt, dd)
    node.show = ([name, value]) => { text(dt, name); text(dd, value) }
    return node
  })
}

const still = matchMedia('(prefers-reduced-motion: reduce)')
function flash(card) {
  if (!still.matches) card.animate([{ boxShadow: '0 0 0 4px var(--accent)' }, { boxShadow: '0 0 0 0 transparent' }], 900)
}

// What arrives is shown at the browser's next frame; of several states only the last one.
let pending, current
function frame() {
  if (pending) current = JSON.parse(pending)
  pending = undefined
  if (source?.readyState === EventSource.OPEN) connection(...liveness())
  const begin = performance.now()
  update(current)
  document.documentElement.dataset.updateMs = (performance.now() - begin).toFixed(1) // for whoever measures
}
function later() { if (!later.asked) { later.asked = true; requestAnimationFrame(() => { later.asked = false; frame() }) } }

let source, heard = 0, tried = 0
function connection(kind, words) {
  attr($('connection'), 'data-kind', kind)
  text($('connection-text'), words)
  document.body.classList.toggle('stale', kind === 'bad')
}
// liveness is what the connection is called while it is there; pages that follow others say how these are.
let liveness = () => ['ok', 'Live']
function alive() { heard = Date.now(); connection(...liveness()) }
function lost() { connection('bad', heard ? `Disconnected, retrying. This was at ${clock(heard)}.` : 'No connection, retrying') }
function connect() {
  source?.close()
  tried = Date.now()
  source = new EventSource('events')
  source.onmessage = message => { pending = message.data; alive(); later() }
  source.addEventListener('same', alive) // nothing has changed, and somebody is there
  source.onerror = lost
}
// The browser connects again by itself, except after an answer that it does not like or a connection that hangs.
setInterval(() => {
  if (document.hidden) return
  if (source.readyState === EventSource.CLOSED || Date.now() - Math.max(heard, tried) > 10000) { lost(); connect() }
}, 3000)
// A tab that nobody sees follows nothing: browsers have few connections for one server.
document.onvisibilitychange = () => document.hidden ? source.close() : connect()


// troubles shows all that is wrong, [key, who, what, link], and how much that is. What is the same with several is one line.
function troubles(all) {
  const by = new Map()
  for (const [key, who, what, href] of all) (by.get(what) || by.set(what, { key, what, whose: [] }).get(what)).whose.push([who, href])
  const lines = [...by.values()], items = lines.slice(0, 8)
  if (lines.length > items.length) items.push({ key: 'more', what: `and ${number(all.length - items.reduce((sum, i) => sum + i.whose.length, 0))} more`, whose: [] })
  show($('trouble'), all.length > 0)
  text($('trouble-title'), `In trouble: ${number(all.length)}`)
  list($('trouble-list'), items, t => t.key, () => {
    const names = h('span'), rest = h('span'), node = h('li', names, ' ', rest)
    node.show = ({ what, whose }) => {
      const shown = whose.slice(0, 5).map(([who, href], i) => ({ who, href, last: i === Math.min(whose.length, 5) - 1 }))
      if (whose.length > shown.length) shown.push({ who: `and ${number(whose.length - shown.length)} more`, last: true })
      list(names, shown, w => w.who, () => {
        const link = h('a'), name = h('strong'), comma = h('span'), one = h('span', link, name, comma)
        one.show = ({ who, href, last }) => {
          if (href) attr(link, 'href', href)
          show(link, !!href)
          show(name, !href)
          text(href ? link : name, who)
          text(comma, last ? '' : ', ')
        }
        return one
      })
      text(rest, whose.length > 1 ? what.replace(/^is a/, 'are each a').replace(/^is /, 'are ') : what)
    }
    return node
  })
  return all.length
}

// figure shows a number at the top: [name, value, whether it is one of the main ones].
function figure([, , main]) {
  const dt = h('dt'), dd = h('dd'), node = h('div', dt, dd)
  node.classList.toggle('main', !!main)
  node.show = ([name, value]) => { text(dt, name); text(dd, value) }
  return node
}

// filter is what the filter lets through: that in which every word of it occurs somewhere; null for everything. hay lists
// what is searched in an item.
function filter(hay) {
  const wanted = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean)
  if (!wanted.length) return null
  return item => {
    const all = hay(item).join('\n').toLowerCase()
    return wanted.every(word => all.includes(word))
  }
}
