import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import type { TenantId } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { isSameList, type ToolLists, type WholeList } from './tool-list.ts'

type Listening = {
  readonly caller: ToolCaller
  readonly tell: (event: ServerEvent) => void
  /** The caller's list at the last notification, or when it began to listen. */
  seen: WholeList | Promise<WholeList>
}

/**
 * Listeners in the stateless revision. The SDK has one bus for all of them; this one remembers who subscribed, so that a caller
 * is notified only of its own changes.
 */
export type ListeningCallers = Readonly<{
  bus: ServerEventBus
  /** Subscriptions within `serve` belong to this caller. */
  as<T>(caller: ToolCaller, serve: () => T): T
  toolsChanged(tenant: TenantId): Promise<void>
  /** The listeners of this caller. */
  tell(caller: ToolCaller, event: ServerEvent): void
}>

export function createListeningCallers({ lists, logger }: { lists: ToolLists; logger: Logger }): ListeningCallers {
  const listening = new Set<Listening>()
  const current = new AsyncLocalStorage<ToolCaller>()
  const tell = ({ tell: send }: Listening, event: ServerEvent): void => {
    try {
      send(event)
    } catch (error) {
      logger.debug('an MCP subscription could not be notified of a change', { error: String(error) })
    }
  }
  return {
    bus: {
      publish(event) {
        for (const one of listening) tell(one, event)
      },
      subscribe(send) {
        const caller = current.getStore()
        if (caller === undefined) throw new Error('a subscription outside of a request')
        const seen = lists.whole(caller)
        // A list that cannot be built is reported when it can.
        if (seen instanceof Promise) seen.catch(() => {})
        const one: Listening = { caller, tell: send, seen }
        listening.add(one)
        return () => void listening.delete(one)
      },
    },
    as: (caller, serve) => current.run(caller, serve),
    tell(caller, event) {
      for (const one of listening) if (one.caller === caller) tell(one, event)
    },
    async toolsChanged(tenant) {
      for (const one of listening) {
        if (one.caller.principal.tenant !== tenant) continue
        const before = await Promise.resolve(one.seen).catch(() => [])
        one.seen = await lists.whole(one.caller)
        if (listening.has(one) && !isSameList(before, one.seen)) tell(one, { kind: 'tools_list_changed' })
      }
    },
  }
}
