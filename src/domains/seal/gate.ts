import type { Principal } from '../../contract/principal.ts'
import { type RequestId, readEnvelope, requestIdOf } from './envelope.ts'
import type { OpenedCall, SealService } from './service.ts'
import { parseStrictJson } from './strict-json.ts'

/** What a transport needs to take signed calls: it carries texts and knows nothing of what is in them. */
export type SealGate = Readonly<{
  /** Never throws: what is wrong is said by `open`, and `id` goes into the answer either way. */
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
