import type { Principal } from '../../contract/principal.ts'
import { type RequestId, readEnvelope, requestIdOf } from './envelope.ts'
import type { OpenedCall, SealService } from './service.ts'
import { parseStrictJson } from './strict-json.ts'

/** What a transport needs to accept signed calls: it forwards texts without knowing their content. */
export type SealGate = Readonly<{
  /** Never throws: `open` reports errors, and `id` goes into the answer in any case. */
  read(body: string): Readonly<{ id: RequestId; open(): Promise<OpenedCall> }>
  preview(principal: Principal, context: string | undefined): Principal
}>

export const createSealGate = (service: SealService): SealGate => ({
  preview: service.preview,
  read(body) {
    let parsed: unknown
    try {
      parsed = parseStrictJson(body)
    } catch (error) {
      return { id: null, open: () => Promise.reject(error) }
    }
    return { id: requestIdOf(parsed), open: async () => await service.open(readEnvelope(parsed)) }
  },
})
