import { AppError } from '../../contract/app-error.ts'
import type { CallTool } from './call-tool.ts'
import type { Catalog } from './catalog.ts'
import { isExposed } from './exposure.ts'
import { isVisible, type Mode } from './stages.ts'
import type { CallDuration, ListedTool, ToolAnswer, ToolCaller, ToolHost } from './tool-host.ts'

/** The tools as doors see them. `callTool` may still be on its way: listing needs no store, calling waits for it. */
export function createToolHost(deps: { catalog: Catalog; mode: Mode; callTool: Promise<CallTool> }): ToolHost {
  const { catalog, mode } = deps
  const lists = new Map<string, readonly ListedTool[]>()
  let ready: CallTool | undefined
  deps.callTool.then(
    (callTool) => {
      ready = callTool
    },
    () => {},
  )
  const makeList = (caller: ToolCaller): readonly ListedTool[] =>
    catalog.tools
      .filter((tool) => isVisible(tool, caller, mode) && isExposed(tool, caller.exposure))
      .filter((tool) => !(caller.safeNames && tool.definition.aliasOf !== undefined))
      .map((tool) => (caller.safeNames ? tool.listedSafe : tool.listed))
  return {
    list(caller) {
      // Contexts are as many as there are agents.
      if (caller.principal.securityContexts !== undefined) return makeList(caller)
      const key = listKey(caller)
      let list = lists.get(key)
      if (list === undefined) {
        list = makeList(caller)
        if (lists.size >= LISTS_MAX) lists.clear()
        lists.set(key, list)
      }
      return list
    },
    call(caller, name, args, options) {
      if (ready !== undefined) return ready(caller, name, args, options)
      return deps.callTool.then((callTool) => callTool(caller, name, args, options), failedStart)
    },
    durationOf: (name, args) => durationOf(catalog, name, args),
    // The catalogue is fixed for the life of the process; lists that change come with tools of others.
    onListChanged: () => () => {},
  }
}

function durationOf(catalog: Catalog, name: string, args: unknown): CallDuration {
  const definition = catalog.find(name)?.definition
  if (definition?.redirects === true) {
    const target = (args as { tool_name?: unknown } | undefined)?.tool_name
    const isLong = typeof target === 'string' && target !== name && durationOf(catalog, target, {}) !== 'short'
    return isLong ? 'long' : 'short'
  }
  if (definition?.waits === true) return 'waits'
  return definition?.long === true ? 'long' : 'short'
}

/** A store that could not be opened is told to whoever called meanwhile; the process itself ends with the same words. */
function failedStart(error: unknown): ToolAnswer {
  const known = error instanceof AppError ? error : new AppError('ERR_INIT_FAILED', 'The server could not start.')
  const failure = { code: known.code, message: known.message, details: known.details }
  return { json: JSON.stringify({ error: failure }), isError: true, failure }
}

/** Callers choose their own exposure names, so the number of distinct lists is theirs to inflate. */
const LISTS_MAX = 256

function listKey({ principal, door, exposure, safeNames }: ToolCaller): string {
  const displayed = typeof exposure === 'string' ? exposure : JSON.stringify(exposure)
  return `${door}|${principal.role}|${principal.tier}|${principal.scopes?.join() ?? '*'}|${safeNames}|${displayed}`
}
