import { AppError } from '../../contract/app-error.ts'
import { permissionsKey } from '../../contract/permissions.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { CallTool } from './call-tool.ts'
import { isExposed, isNotRepeated, mayExposeUpstream } from './exposure.ts'
import { failedAnswer } from './failed-answer.ts'
import { isVisible, type Mode } from './stages.ts'
import type { CallDuration, ListedTool, ToolAnswer, ToolCaller, ToolHost } from './tool-host.ts'
import type { ToolView, ToolViews } from './tool-views.ts'

type ToolHostDeps = Readonly<{
  views: ToolViews
  mode: Mode
  callTool: Promise<CallTool>
  mayAskPerson?: (tenant: TenantId) => boolean
}>

/**
 * The tools as transports see them. `callTool` may still be on its way: calling waits for it, and so does a list that can have
 * tools of other servers in it.
 */
export function createToolHost(deps: ToolHostDeps): ToolHost {
  const { views, mode } = deps
  /** By the view first: what two callers do not both see is never in one list. */
  const lists = new WeakMap<ToolView, Map<string, readonly ListedTool[]>>()
  let ready: CallTool | undefined
  deps.callTool.then(
    (callTool) => {
      ready = callTool
    },
    () => {},
  )
  const makeList = (caller: ToolCaller, { tools, listed }: ToolView): readonly ListedTool[] =>
    (listed ?? tools.filter((tool) => isExposed(tool, caller.exposure)))
      .filter((tool) => isVisible(tool, caller, mode))
      .filter(caller.safeNames || caller.distinctNames === true ? isNotRepeated : () => true)
      .map((tool) => (caller.safeNames ? tool.listedSafe : tool.listed))

  function listIn(caller: ToolCaller, view: ToolView): readonly ListedTool[] {
    // Contexts are as many as there are agents.
    if (caller.principal.securityContexts !== undefined) return makeList(caller, view)
    let byKey = lists.get(view)
    if (byKey === undefined) {
      byKey = new Map()
      lists.set(view, byKey)
    }
    const key = listKey(caller)
    let list = byKey.get(key)
    if (list === undefined) {
      list = makeList(caller, view)
      if (byKey.size >= LISTS_MAX) byKey.clear()
      byKey.set(key, list)
    }
    return list
  }

  return {
    list(caller) {
      const isOfGateway = caller.principal.gateway !== undefined
      if (!isOfGateway && !mayExposeUpstream(caller.exposure)) return listIn(caller, views.own)
      if (ready === undefined) {
        return deps.callTool.then(
          async () => listIn(caller, await views.viewFor(caller.principal)),
          () => (isOfGateway ? [] : listIn(caller, views.own)),
        )
      }
      const view = views.viewFor(caller.principal)
      return view instanceof Promise ? view.then((made) => listIn(caller, made)) : listIn(caller, view)
    },
    async unreachable({ principal, exposure }) {
      const isListed = principal.gateway !== undefined || mayExposeUpstream(exposure)
      return isListed && ready !== undefined ? await views.unreachableFor(principal) : []
    },
    call(caller, name, args, options) {
      if (ready !== undefined) return ready(caller, name, args, options)
      return deps.callTool.then((callTool) => callTool(caller, name, args, options), failedStart)
    },
    ...(deps.mayAskPerson && { mayAskPerson: deps.mayAskPerson }),
    durationOf({ principal }, name, args) {
      const view = views.viewFor(principal)
      return view instanceof Promise ? view.then((made) => durationOf(made, name, args)) : durationOf(view, name, args)
    },
    onListChanged: views.onChanged,
  }
}

function durationOf(view: ToolView, name: string, args: unknown): CallDuration {
  const definition = view.find(name)?.definition
  if (definition?.redirects === true) {
    const target = (args as { tool_name?: unknown } | undefined)?.tool_name
    const isLong = typeof target === 'string' && target !== name && durationOf(view, target, {}) !== 'short'
    return isLong ? 'long' : 'short'
  }
  if (definition?.waits === true) return 'waits'
  return definition?.long === true ? 'long' : 'short'
}

/** A store that could not be opened is told to the caller that called meanwhile; the process itself ends with the same words. */
function failedStart(error: unknown): ToolAnswer {
  const known = error instanceof AppError ? error : new AppError('ERR_INIT_FAILED', 'The server could not start.')
  return failedAnswer(known)
}

/** Callers choose their own exposure names, so the number of distinct lists is theirs to inflate. */
const LISTS_MAX = 256

function listKey({ principal, transport, exposure, safeNames, distinctNames }: ToolCaller): string {
  const names = safeNames ? 'safe' : distinctNames
  const displayed = typeof exposure === 'string' ? exposure : JSON.stringify(exposure)
  return `${transport}|${permissionsKey(principal.permissions)}|${principal.tier}|${names}|${displayed}`
}
