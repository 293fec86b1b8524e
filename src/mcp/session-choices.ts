import type { LoggingLevel } from '@modelcontextprotocol/server'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import type { TenantId } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Logger } from '../kernel/logger.ts'
import type { HttpSession } from './http-sessions.ts'

/** What the client of a session chose: the minimum level of log messages, and the resources that it subscribed to. */
type Choices = Readonly<{ logLevel?: LoggingLevel | undefined; subscriptions?: readonly string[] }>

type Deps = Readonly<{
  sessionMemory: (() => Promise<McpSessionMemory | undefined>) | undefined
  clock: Clock
  logger: Logger
}>

/**
 * Choices of clients are stored with their session, so they survive a restart and apply at every process. A process that already
 * has the session applies a change within a second.
 */
export type SessionChoices = Readonly<{
  /** Rejects if the change does, or if it cannot be stored. */
  choose(session: HttpSession, change: () => void | Promise<void>): Promise<void>
  apply(session: HttpSession, choices: string | undefined): void
  /** Applies what was chosen at other processes. Never rejects. */
  refresh(sessions: readonly HttpSession[]): Promise<void>
}>

/** How much the clocks of two processes may differ. */
const SKEW_MS = 60_000

export function createSessionChoices({ sessionMemory, clock, logger }: Deps): SessionChoices {
  const memoryOf = async ({ rememberedMs }: HttpSession): Promise<McpSessionMemory | undefined> =>
    rememberedMs === undefined ? undefined : await sessionMemory?.()

  function apply(session: HttpSession, text: string | undefined): void {
    if (text === undefined || text === session.choices) return
    session.choices = text
    const { connection } = session
    const { logLevel, subscriptions = [] } = JSON.parse(text) as Choices
    if (logLevel !== undefined) connection.logLevel = logLevel
    const present = connection.subscriptions?.uris() ?? []
    for (const uri of present.filter((one) => !subscriptions.includes(one))) connection.subscriptions?.end(uri)
    for (const uri of subscriptions.filter((one) => !present.includes(one))) {
      connection
        .subscribe?.(uri)
        .catch((error: unknown) => logger.debug('a subscription could not be resumed', { cause: String(error) }))
    }
  }

  return {
    apply,
    async choose(session, change) {
      const memory = await memoryOf(session)
      const { tenant } = session.caller.principal
      const idHash = sha256Hex(session.id)
      // Another process may have changed something else.
      if (memory !== undefined) apply(session, (await memory.find(tenant, idHash))?.choices)
      await change()
      const { logLevel, subscriptions } = session.connection
      const choices: Choices = { logLevel, subscriptions: subscriptions?.uris() ?? [] }
      session.choices = JSON.stringify(choices)
      await memory?.setChoices(tenant, idHash, session.choices, clock.nowMs())
    },
    async refresh(sessions) {
      const byTenant = Map.groupBy(sessions, ({ caller }): TenantId => caller.principal.tenant)
      for (const [tenant, own] of byTenant) {
        try {
          const chosen = await (await sessionMemory?.())?.choicesSince(tenant, clock.nowMs() - SKEW_MS)
          if (chosen === undefined || chosen.size === 0) continue
          for (const session of own) apply(session, chosen.get(sha256Hex(session.id)))
        } catch (error) {
          logger.warn('choices of MCP clients at other processes could not be read', { cause: String(error) })
        }
      }
    },
  }
}
