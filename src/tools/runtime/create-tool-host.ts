import { AppError } from '../../contract/app-error.ts'
import { permissionsKey } from '../../contract/permissions.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createTimeSlicer, nextTurn } from '../../kernel/time-slicer.ts'
import type { CallTool } from './call-tool.ts'
import type { CatalogTool } from './catalog.ts'
import { isExposed, isNotRepeated, mayExposeUpstream } from './exposure.ts'
import { failedAnswer } from './failed-answer.ts'
import { isVisible, type Mode } from './stages.ts'
import type { CallDuration, ListedTool, ToolAnswer, ToolCaller, ToolHost } from './tool-host.ts'
import type { ToolView, ToolViews } from './tool-views.ts'

type ToolList = readonly ListedTool[]

type ToolHostDeps = Readonly<{
  views: ToolViews
  mode: Mode
  clock: Clock
  callTool: Promise<CallTool>
  mayAskPerson?: (tenant: TenantId) => boolean
  readsFrom?: ToolHost['readsFrom']
}>

/**
 * The tools as transports see them. `callTool` may still be loading: calls wait for it, and so does a list that can contain tools
 * of other servers.
 */
export function createToolHost(deps: ToolHostDeps): ToolHost {
  const { views, mode } = deps
  /** Keyed by the view first, so callers with different views never share a list. */
  const lists = new WeakMap<ToolView, Map<string, ToolList | Promise<ToolList>>>()
  let ready: CallTool | undefined
  deps.callTool.then(
    (callTool) => {
      ready = callTool
    },
    () => {},
  )
  const isSeen = (tool: CatalogTool, caller: ToolCaller, { listed }: ToolView): boolean =>
    (listed !== undefined || isExposed(tool, caller.exposure)) && isVisible(tool, caller, mode)

  const displayed = (caller: ToolCaller, seen: readonly CatalogTool[]): ToolList =>
    (caller.safeNames || caller.distinctNames === true ? seen.filter(isNotRepeated) : seen).map((tool) =>
      caller.safeNames ? tool.listedSafe : tool.listed,
    )

  function makeList(caller: ToolCaller, view: ToolView): ToolList | Promise<ToolList> {
    const all = view.listed ?? view.tools
    if (all.length > JUDGED_AT_ONCE_MAX) return makeLongList(caller, view, all)
    return displayed(
      caller,
      all.filter((tool) => isSeen(tool, caller, view)),
    )
  }

  /** Others run while very many tools are judged. */
  async function makeLongList(caller: ToolCaller, view: ToolView, all: readonly CatalogTool[]): Promise<ToolList> {
    await nextTurn()
    const slicer = createTimeSlicer(deps.clock, neverAborted)
    const seen: CatalogTool[] = []
    for (const tool of all) {
      const pause = slicer.pause()
      if (pause !== undefined) await pause
      if (isSeen(tool, caller, view)) seen.push(tool)
    }
    await nextTurn()
    return displayed(caller, seen)
  }

  function listIn(caller: ToolCaller, view: ToolView): ToolList | Promise<ToolList> {
    // There are as many contexts as agents.
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
      if (list instanceof Promise) {
        const ofKey = byKey
        list.then(
          (made) => ofKey.has(key) && ofKey.set(key, made),
          () => ofKey.delete(key),
        )
      }
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
    ...(deps.readsFrom && { readsFrom: deps.readsFrom }),
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

/** A failure to open the store is the answer to calls that came meanwhile; the process ends with the same message. */
function failedStart(error: unknown): ToolAnswer {
  const known = error instanceof AppError ? error : new AppError('ERR_INIT_FAILED', 'The server could not start.')
  return failedAnswer(known)
}

/** Judging this many takes no noticeable time. */
const JUDGED_AT_ONCE_MAX = 1_000
const neverAborted = new AbortController().signal

/** Callers choose their exposure names, so they could create any number of distinct lists. */
const LISTS_MAX = 256

function listKey({ principal, transport, exposure, safeNames, distinctNames }: ToolCaller): string {
  const names = safeNames ? 'safe' : distinctNames
  const displayed = typeof exposure === 'string' ? exposure : JSON.stringify(exposure)
  return `${transport}|${permissionsKey(principal.permissions)}|${principal.tier}|${names}|${displayed}`
}
