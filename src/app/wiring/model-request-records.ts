import type { CallEntry, CallOutcome } from '../../audit/call-entry.ts'
import { limits } from '../../contract/limits.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { FinishedRequest } from '../../model-proxy/ports.ts'
import type { ReadRecords } from '../../tools/runtime/read-records.ts'

export type ModelRequestRecords = Readonly<{
  add(request: FinishedRequest): void
  /** Resolves when another request may be taken; undefined while there is space. */
  space(): Promise<void> | undefined
}>

/** The log entries of requests to models. They change nothing here, so they are gathered as calls that only read are. */
export function createModelRequestRecords(
  deps: Readonly<{ records: Pick<ReadRecords, 'add'>; newCallId(): string; logger: Logger }>,
): ModelRequestRecords {
  let waiting: Promise<void> | undefined
  return {
    space: () => waiting,
    add(request) {
      const added = deps.records.add(entryOf(request, deps.newCallId()))
      if (added === undefined) return
      const settled: Promise<void> = added
        .catch((error: unknown) => deps.logger.error('a request to a model is not recorded', { cause: String(error) }))
        .then(() => {
          if (waiting === settled) waiting = undefined
        })
      waiting = settled
    },
  }
}

const outcomes: Readonly<Record<FinishedRequest['status'], CallOutcome>> = {
  ok: 'ok',
  failed: 'failed',
  cut_off: 'cancelled',
  refused: 'refused',
}
/** What is larger is recorded without a digest, which would hold up the others. */
const DIGESTED_BYTES_MAX = 1024 * 1024

function entryOf(request: FinishedRequest, callId: string): CallEntry {
  const { caller, proxy, tokens, requestBody } = request
  const isDigested = (requestBody?.length ?? 0) <= DIGESTED_BYTES_MAX
  return {
    callId,
    atMs: request.startedAtMs,
    principal: caller.principal,
    transport: 'model-proxy',
    tool: 'model_request',
    inputDigest: isDigested ? `sha256:${sha256Hex(requestBody ?? '')}` : 'unread',
    outcome: outcomes[request.status],
    durationMs: request.durationMs,
    decisions: request.decisions.slice(0, limits.interactionDecisionsMax),
    effects: [],
    content: {
      input: {
        provider: request.provider,
        operation: request.operation,
        proxy: proxy?.id ?? null,
        model: bounded(request.requestedModel),
        ...(request.rule !== null && { rule: request.rule }),
        stream: request.isStream,
        authenticated_by: caller.method,
        session: request.labels.session ?? null,
        bytes: requestBody?.length ?? 0,
      },
      output: {
        status: request.httpStatus,
        model: bounded(request.usedModel),
        bytes: request.answerBytes,
        cost_microdollars: request.costMicrodollars,
        first_byte_ms: request.firstByteMs === null ? null : Math.round(request.firstByteMs),
        tokens:
          tokens === undefined
            ? null
            : {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cacheRead,
                cache_write: tokens.cacheWrite,
                reasoning: tokens.reasoning,
                estimated: request.isEstimated,
              },
      },
    },
  }
}

const bounded = (name: string | null): string | null =>
  name?.slice(0, limits.interactionModelCharsMax).toWellFormed() ?? null
