import { existsSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { readText, repositoryRoot } from './source-files.ts'

/** Links of documents: what they point at must be there, and a heading must be one of the page. */
type Link = Readonly<{ line: number; target: string }>
export type LinkFault = Readonly<{ line: number; message: string }>

/** Reads what a document points at; undefined when there is nothing at the path. */
type Look = (path: string) => string | undefined

const OUTSIDE = /^[a-z][a-z0-9+.-]*:|^\/\//i
const INLINE = /!?\[(?:[^\]\\`]|\\.|`[^`]*`)*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g
const DEFINITION = /^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?/
const HTML = /<(?:a|img)\b[^>]*?\s(?:href|src)="([^"]+)"/g

function linksOf(text: string): Link[] {
  return proseLines(text).flatMap((prose, index) => {
    const defined = DEFINITION.exec(prose)?.[1]
    const found = [...prose.matchAll(INLINE), ...prose.matchAll(HTML)].map((match) => match[1]!)
    return [...(defined === undefined ? [] : [defined]), ...found].map((target) => ({ line: index + 1, target }))
  })
}

/** Without code, line by line: brackets in an example are no links. */
function proseLines(text: string): string[] {
  let fence: string | undefined
  return text.split('\n').map((line) => {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence !== undefined) {
      if (mark?.startsWith(fence)) fence = undefined
      return ''
    }
    if (mark !== undefined) {
      fence = mark
      return ''
    }
    return line.replaceAll(/(`+)(?!`).*?(?<!`)\1(?!`)/g, (code) => '`'.repeat(code.length))
  })
}

/** The anchors of a page, as GitHub makes them from its headings. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>()
  const seen = new Map<string, number>()
  const lines = text.split('\n')
  proseLines(text).forEach((prose, index) => {
    for (const [, id] of prose.matchAll(/<a\b[^>]*?\s(?:id|name)="([^"]+)"/g)) anchors.add(id!)
    if (!/^ {0,3}#{1,6}\s/.test(prose)) return
    const heading = lines[index]!.replace(/^ {0,3}#{1,6}\s+/, '').replace(/\s#+\s*$/, '')
    const slug = heading
      .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  })
  return anchors
}

export function checkLinks(path: string, text: string, look: Look = lookInRepository): LinkFault[] {
  return linksOf(text).flatMap(({ line, target }) => {
    const message = faultOf(path, text, target, look)
    return message === undefined ? [] : [{ line, message: `${path}:${line} ${message}` }]
  })
}

function faultOf(path: string, text: string, target: string, look: Look): string | undefined {
  if (OUTSIDE.test(target)) return undefined
  const [file = '', anchor] = target.split('#')
  if (file.startsWith('/')) return `links to ${target}: write the path relative to the document.`
  const pointed = file === '' ? path : normalize(join(dirname(path), decodeURIComponent(file)))
  if (pointed.startsWith('..')) return `links to ${target}: that is outside the repository.`
  const found = file === '' ? text : look(pointed)
  if (found === undefined) return `links to ${target}: there is no ${pointed}.`
  if (anchor === undefined || !pointed.endsWith('.md')) return undefined
  return anchorsOf(found).has(decodeURIComponent(anchor))
    ? undefined
    : `links to ${target}: ${pointed} has no such heading.`
}

function lookInRepository(path: string): string | undefined {
  const location = join(repositoryRoot, path)
  if (!existsSync(location)) return undefined
  return statSync(location).isFile() ? readText(path) : ''
}
