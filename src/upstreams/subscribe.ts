import { type Client, UriTemplate } from '@modelcontextprotocol/client'
import type { CallingClient } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import { pause } from '../kernel/pause.ts'
import type { ClientLink } from './client-link.ts'
import type { Connection } from './handshake.ts'

type Use = <T>(work: (connection: Connection, clientLink: ClientLink) => Promise<T>) => Promise<T>

/**
 * Notifies the client of changes of a resource until the signal is aborted. Returns whether the server has the resource and
 * announces its changes. A lost connection is opened again, and the client is then notified, because the resource may have
 * changed meanwhile.
 */
export async function subscribe(use: Use, client: CallingClient, uri: string, signal: AbortSignal): Promise<boolean> {
  const opened = Promise.withResolvers<boolean>()
  let isOpen = false

  /** Resolves to false if there is nothing to subscribe to. */
  const hold = ({ client: server, closed }: Connection): Promise<boolean> =>
    whileOpen(server, uri, signal, closed, () => {
      if (isOpen) client.tell({ method: 'notifications/resources/updated', params: { uri } })
      isOpen = true
      opened.resolve(true)
    })

  async function keep(): Promise<void> {
    for (let pauseMs: number = limits.mcpBackOffMs; ; pauseMs = Math.min(pauseMs * 2, limits.mcpBackOffMsMax)) {
      try {
        if (!(await use(hold))) return
      } catch (error) {
        if (!isOpen) throw error
      }
      await pause(pauseMs, signal)
    }
  }
  keep().then(() => opened.resolve(false), opened.reject)
  return await opened.promise
}

async function whileOpen(
  server: Client,
  uri: string,
  signal: AbortSignal,
  closed: Promise<void>,
  onOpened: () => void,
): Promise<boolean> {
  if (!(await hasResource(server, uri, signal))) return false
  const listening =
    server.getProtocolEra() === 'modern' ? await server.listen({ resourceSubscriptions: [uri] }, { signal }) : undefined
  if (listening === undefined) await server.subscribeResource({ uri }, { signal })
  onOpened()
  const aborted = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => aborted.resolve(), { once: true })
  if (signal.aborted) aborted.resolve()
  await Promise.race([aborted.promise, closed, ...(listening === undefined ? [] : [listening.closed])])
  if (listening !== undefined) await listening.close()
  else if (signal.aborted)
    await server.unsubscribeResource({ uri }, { timeout: limits.mcpServerEndGraceMs }).catch(() => {})
  return true
}

/** Some servers accept subscriptions to resources that they do not have. */
async function hasResource(server: Client, uri: string, signal: AbortSignal): Promise<boolean> {
  if (server.getServerCapabilities()?.resources?.subscribe !== true) return false
  const options = { signal, cacheMode: 'bypass' as const }
  const { resources } = await server.listResources(undefined, options)
  if (resources.some((resource) => resource.uri === uri)) return true
  const { resourceTemplates } = await server
    .listResourceTemplates(undefined, options)
    .catch(() => ({ resourceTemplates: [] }))
  return resourceTemplates.some(({ uriTemplate }) => matches(uriTemplate, uri))
}

function matches(template: string, uri: string): boolean {
  try {
    return new UriTemplate(template).match(uri) !== null
  } catch {
    return false
  }
}
