import type { IncomingHttpHeaders } from 'node:http'
import type { InteractionLabels, TraceParent } from '../contract/interaction.ts'
import { limits } from '../contract/limits.ts'

const names = ['session', 'agent', 'user', 'run'] as const

/**
 * What a caller says of itself in `X-Castellan-Session-Id`, `-Agent-Id`, `-User-Id` and `-Run-Id`, in the same headers of Archestra, or
 * in `X-Archestra-Meta: agent/run/session`. It is written down and believed by nobody.
 */
export function callerLabels(headers: IncomingHttpHeaders): InteractionLabels {
  const meta = labelOf(headers['x-castellan-meta'] ?? headers['x-archestra-meta'])
  const [agent, run, session] = meta?.split('/') ?? []
  const found: Record<string, string> = {}
  const inMeta: Readonly<Record<string, string | undefined>> = { agent, run, session }
  for (const name of names) {
    const said = headers[`x-castellan-${name}-id`] ?? headers[`x-archestra-${name}-id`]
    const label = labelOf(said) ?? labelOf(inMeta[name])
    if (label !== undefined) found[name] = label
  }
  return found
}

const labelOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === 'string' && header !== ''
    ? header.slice(0, limits.interactionLabelCharsMax).toWellFormed()
    : undefined

const TRACE_PARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/
const NONE = /^0+$/

/** W3C trace context, if the caller sent one that is valid. */
export function traceParentOf({ traceparent }: IncomingHttpHeaders): TraceParent | undefined {
  const [, traceId, spanId] = (typeof traceparent === 'string' && TRACE_PARENT.exec(traceparent)) || []
  if (traceId === undefined || spanId === undefined || NONE.test(traceId) || NONE.test(spanId)) return undefined
  return { traceId, spanId }
}
