import type { CallEntry, CallOutcome } from '../../audit/call-entry.ts'
import { limits } from '../../contract/limits.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { FinishedRequest } from '../../model-proxy/ports.ts'
import type { ReadRecords } from '../../tools/runtime/read-records.ts'

type ModelRequestRecords = Readonly<{
  add(request: FinishedRequest): void
  /** Resolves when another request can be accepted; undefined while there is space. */
  space(): Promise<void> | undefined
}>

/** The log entries of requests to models. They change nothing here, so they are batched like reads. */
export function createModelRequestRecords(
  deps: Readonly<{ records: Pick<ReadRecords, 'add'>; newCallId(): string; logger: Logger }>,
): ModelRequestRecords {
  let waiting: Promise<void> | undefined
  const unrecorded = (error: unknown): void =>
    deps.logger.error('model request could not be recorded', { cause: String(error) })

  function addNow(request: FinishedRequest): void | Promise<void> {
    try {
      return deps.records.add(entryOf(request, deps.newCallId()))
    } catch (error) {
      unrecorded(error)
    }
  }

  return {
    space: () => waiting,
    add(request) {
      const added = addNow(request)
      if (added === undefined) return
      const settled: Promise<void> = added.catch(unrecorded).then(() => {
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
/** A larger body is recorded without a digest, which would delay other requests. */
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
    // In the order of the canonical form, which need not be sorted then.
    content: {
      input: {
        authenticated_by: caller.method,
        bytes: requestBody?.length ?? 0,
        model: bounded(request.requestedModel),
        operation: request.operation,
        provider: request.provider,
        provider_key: request.providerKeyScope,
        proxy: proxy?.id ?? null,
        rule: request.rule?.name,
        rule_id: request.rule?.id ?? undefined,
        session: request.labels.session ?? null,
        stream: request.isStream,
      },
      output: {
        bytes: request.answerBytes,
        cost_microdollars: request.costNanodollars === null ? null : request.costNanodollars / 1_000,
        first_byte_ms: request.firstByteMs === null ? null : Math.round(request.firstByteMs),
        model: bounded(request.usedModel),
        status: request.httpStatus,
        tokens:
          tokens === undefined
            ? null
            : {
                cache_read: tokens.cacheRead,
                cache_write: tokens.cacheWrite,
                estimated: request.isEstimated,
                input: tokens.input,
                output: tokens.output,
                reasoning: tokens.reasoning,
              },
      },
    },
  }
}

const bounded = (name: string | null): string | null =>
  name?.slice(0, limits.interactionModelCharsMax).toWellFormed() ?? null
