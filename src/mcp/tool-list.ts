import { limits } from '../contract/limits.ts'
import type { ListedTool, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'

/**
 * What callers see of the tools, computed once for each kind of caller and kept until the host says that it changed.
 * Two callers share a list only if everything that could decide visibility is equal.
 */
export type ToolPage = Readonly<{ tools: readonly ListedTool[]; nextCursor?: string }>

export type ToolLists = Readonly<{
  /** `undefined` when the cursor is not one that this list gave out. */
  page(caller: ToolCaller, cursor: string | undefined): ToolPage | undefined
  find(caller: ToolCaller, name: string): ListedTool | undefined
  clear(): void
}>

type KnownList = Readonly<{ tools: readonly ListedTool[]; byName: ReadonlyMap<string, number> }>

const LISTS_MAX = 128
const CURSOR_PREFIX = 'after:'

export function createToolLists(host: ToolHost): ToolLists {
  const lists = new Map<string, KnownList>()

  function listOf(caller: ToolCaller): KnownList {
    const key = visibilityKey(caller)
    let list = lists.get(key)
    if (list === undefined) {
      const tools = host.list(caller)
      list = { tools, byName: new Map(tools.map((tool, index) => [tool.name, index])) }
      if (lists.size >= LISTS_MAX) lists.clear()
      lists.set(key, list)
    }
    return list
  }

  return {
    page(caller, cursor) {
      const { tools, byName } = listOf(caller)
      let start = 0
      if (cursor !== undefined) {
        const last = byName.get(decodeCursor(cursor) ?? '')
        if (last === undefined) return undefined
        start = last + 1
      }
      const end = start + limits.toolListPageSize
      if (start === 0 && end >= tools.length) return { tools }
      const page = tools.slice(start, end)
      return end < tools.length ? { tools: page, nextCursor: encodeCursor(page.at(-1)!.name) } : { tools: page }
    },
    find(caller, name) {
      const { tools, byName } = listOf(caller)
      const index = byName.get(name)
      return index === undefined ? undefined : tools[index]
    },
    clear: () => lists.clear(),
  }
}

function visibilityKey({ principal, door, exposure, safeNames }: ToolCaller): string {
  return JSON.stringify([
    door,
    exposure,
    safeNames,
    principal.tenant,
    principal.kind,
    principal.role,
    principal.tier,
    principal.teams,
    principal.scopes ?? 0,
    principal.keyId ?? 0,
    principal.user ?? 0,
    principal.agent ?? 0,
    principal.securityContexts?.map(({ name }) => name) ?? 0,
  ])
}

const encodeCursor = (name: string): string => Buffer.from(CURSOR_PREFIX + name).toString('base64url')

function decodeCursor(cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  return text.startsWith(CURSOR_PREFIX) ? text.slice(CURSOR_PREFIX.length) : undefined
}
