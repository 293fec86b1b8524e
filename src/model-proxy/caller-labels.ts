import type { IncomingHttpHeaders } from 'node:http'
import type { InteractionLabels, TraceParent } from '../contract/interaction.ts'
import { limits } from '../contract/limits.ts'

const labels = (['session', 'agent', 'user', 'run'] as const).map((name) => ({
  name,
  ours: `x-castellan-${name}-id`,
  theirs: `x-archestra-${name}-id`,
}))

/**
 * The caller's statements about itself in `X-Castellan-Session-Id`, `-Agent-Id`, `-User-Id` and `-Run-Id`, in Archestra's same
 * headers, or in `X-Archestra-Meta: agent/run/session`. They are recorded and never trusted.
 */
export function callerLabels(headers: IncomingHttpHeaders): InteractionLabels {
  const meta = labelOf(headers['x-castellan-meta'] ?? headers['x-archestra-meta'])
  const [agent, run, session] = meta?.split('/') ?? NOTHING
  const found: Record<string, string> = {}
  for (const { name, ours, theirs } of labels) {
    const inMeta = name === 'agent' ? agent : name === 'run' ? run : name === 'session' ? session : undefined
    const label = labelOf(headers[ours] ?? headers[theirs]) ?? labelOf(inMeta)
    if (label !== undefined) found[name] = label
  }
  return found
}
const NOTHING: readonly string[] = []

const labelOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === 'string' && header !== ''
    ? header.slice(0, limits.interactionLabelCharsMax).toWellFormed()
    : undefined

const TRACE_PARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/
const NONE = /^0+$/

/** W3C trace context, if the caller sent a valid one. */
export function traceParentOf({ traceparent }: IncomingHttpHeaders): TraceParent | undefined {
  const [, traceId, spanId] = (typeof traceparent === 'string' && TRACE_PARENT.exec(traceparent)) || []
  if (traceId === undefined || spanId === undefined || NONE.test(traceId) || NONE.test(spanId)) return undefined
  return { traceId, spanId }
}
