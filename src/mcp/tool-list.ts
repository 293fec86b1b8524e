import { limits } from '../contract/limits.ts'
import type { UnreachableServer } from '../contract/upstream-content.ts'
import type { ListedTool, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'

/** The tools that callers see, in pages. The host decides who sees which tools, and caches the lists. */
type ToolPage = Readonly<{
  tools: readonly ListedTool[]
  nextCursor?: string
  /** On the first page: the servers that did not answer, so that a list that is short for that reason says so. */
  _meta?: Readonly<Record<string, unknown>>
  /** The whole list of the page. */
  whole: WholeList
}>
/** The same array while the list does not change. */
export type WholeList = readonly ListedTool[]

export type ToolLists = Readonly<{
  whole(caller: ToolCaller): WholeList | Promise<WholeList>
  /** `undefined` if this list did not issue the cursor. */
  page(caller: ToolCaller, cursor: string | undefined): Promise<ToolPage | undefined>
}>

const CURSOR_PREFIX = 'after:'

export function createToolLists(host: ToolHost): ToolLists {
  const indexes = new WeakMap<WholeList, ReadonlyMap<string, number>>()

  function indexOf(whole: WholeList, name: string): number | undefined {
    let known = indexes.get(whole)
    if (known === undefined) {
      known = new Map(whole.map((tool, index) => [tool.name, index]))
      indexes.set(whole, known)
    }
    return known.get(name)
  }

  return {
    whole: (caller) => host.list(caller),
    async page(caller, cursor) {
      const whole = await host.list(caller)
      let start = 0
      if (cursor !== undefined) {
        const last = indexOf(whole, decodeCursor(cursor) ?? '')
        if (last === undefined) return undefined
        start = last + 1
      }
      const end = start + limits.toolListPageSize
      const meta = start === 0 ? metaOf(await host.unreachable?.(caller)) : undefined
      if (start === 0 && end >= whole.length) return { tools: whole, whole, ...meta }
      const tools = whole.slice(start, end)
      const nextCursor = end < whole.length ? { nextCursor: encodeCursor(tools.at(-1)!.name) } : {}
      return { tools, whole, ...nextCursor, ...meta }
    },
  }
}

const metaOf = (unreachable: readonly UnreachableServer[] = []): Pick<ToolPage, '_meta'> =>
  unreachable.length === 0 ? {} : { _meta: { 'castellan/unreachable': unreachable } }

/** Unchanged tools are the same objects in both. */
export const isSameList = (one: WholeList, other: WholeList): boolean =>
  one === other || (one.length === other.length && one.every((tool, index) => tool === other[index]))

const encodeCursor = (name: string): string => Buffer.from(CURSOR_PREFIX + name).toString('base64url')

function decodeCursor(cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  return text.startsWith(CURSOR_PREFIX) ? text.slice(CURSOR_PREFIX.length) : undefined
}
