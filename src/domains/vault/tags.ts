import type { Json } from '../../kernel/canonical-json.ts'
import { bodyStart, deleteField, type Fields, frontmatterBroken, readFrontmatter, setField } from './frontmatter.ts'

/** A tag as Obsidian parses it: letters, digits, `_`, `-` and `/`, and not only digits. */
const TAG = /^(?=.*[^\d/])[\p{L}\p{N}_/-]+$/u
const INLINE_TAG = /(?<=^|[\s(])#((?=[\p{N}/]*[\p{L}_-])[\p{L}\p{N}_/-]+)/gu
const FENCE = /^ {0,3}(`{3,}|~{3,})/
const CODE_SPAN = /`[^`]*`/g

/** The tag without its `#`; undefined for anything else. */
export function tagName(text: string): string | undefined {
  const name = text.startsWith('#') ? text.slice(1) : text
  return TAG.test(name) ? name : undefined
}

/** The tags of a note: those of its front matter, then those in its text, each once. Code is skipped. */
export function tagsOf(text: string): string[] {
  const read = readFrontmatter(text)
  const listed = read.kind === 'fields' ? listedTags(read.fields['tags']) : []
  return [...new Set([...listed, ...inlineTags(text.slice(bodyStart(text)))])]
}

/** Whether a note has the tag or one below it: `area` covers `area/home`. Case does not matter, as in Obsidian. */
export function hasTag(text: string, tag: string): boolean {
  const query = tag.toLowerCase()
  return tagsOf(text).some((one) => one.toLowerCase() === query || one.toLowerCase().startsWith(`${query}/`))
}

/** The note with the tag in its front matter; undefined if it has it already. */
export function addTag(text: string, tag: string): string | undefined {
  const items = listItems(text)
  if (items.some((item) => isTag(item, tag))) return undefined
  return setField(text, 'tags', [...items, tag])
}

/** The note without the tag in its front matter; undefined if it does not have it. The text is never changed. */
export function removeTag(text: string, tag: string): string | undefined {
  const items = listItems(text)
  const retained = items.filter((item) => !isTag(item, tag))
  if (retained.length === items.length) return undefined
  return retained.length === 0 ? deleteField(text, 'tags') : setField(text, 'tags', retained)
}

const isTag = (item: Json, tag: string): boolean => String(item).replace(/^#/, '').toLowerCase() === tag.toLowerCase()

/** The value of `tags` as a list: it may be one string with several tags. */
function listItems(text: string): readonly Json[] {
  const read = readFrontmatter(text)
  if (read.kind === 'broken') throw frontmatterBroken(read.reason)
  const fields: Fields = read.kind === 'fields' ? read.fields : {}
  const tags = Object.hasOwn(fields, 'tags') ? fields['tags'] : null
  if (tags === null || tags === undefined) return []
  if (Array.isArray(tags)) return tags as Json[]
  if (typeof tags === 'object') throw frontmatterBroken('its field tags is not a list')
  return splitTags(String(tags))
}

const splitTags = (text: string): string[] => text.split(/[,\s]+/).filter((part) => part !== '')

function listedTags(tags: Json | undefined): string[] {
  if (tags === null || tags === undefined) return []
  const items = Array.isArray(tags) ? tags : typeof tags === 'object' ? [] : splitTags(String(tags))
  return (items as Json[])
    .filter((item) => typeof item === 'string' || typeof item === 'number')
    .map((item) => String(item).replace(/^#/, ''))
    .filter((item) => item !== '')
}

function inlineTags(body: string): string[] {
  const found: string[] = []
  let boundary: string | undefined
  for (const line of body.split('\n')) {
    const mark = FENCE.exec(line)?.[1]
    if (boundary !== undefined) {
      if (mark?.startsWith(boundary) && line.trim() === mark) boundary = undefined
    } else if (mark !== undefined) {
      boundary = mark
    } else if (line.includes('#')) {
      for (const match of line.replaceAll(CODE_SPAN, '``').matchAll(INLINE_TAG)) found.push(match[1]!)
    }
  }
  return found
}
