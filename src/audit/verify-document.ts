import { type NoteVerifier, parseVerifierKey } from './checkpoint.ts'
import { createDocumentReader, type DocumentReader, expectEnd, readFirstObject } from './document-reader.ts'
import { CONSISTENCY_FORMAT, EXPORT_FORMAT, PROOF_FORMAT } from './export-format.ts'
import { type ExportVerified, verifyExport } from './verify-export.ts'
import type { VerifyInput } from './verify-input.ts'
import { fail, VerifyFailure, type VerifyProblem } from './verify-problem.ts'
import {
  type ConsistencyVerified,
  type InclusionVerified,
  verifyConsistencyDocument,
  verifyProofDocument,
} from './verify-proof-document.ts'

type Verified = ExportVerified | InclusionVerified | ConsistencyVerified

export type VerifyResult = (Readonly<{ ok: true }> & Verified) | Readonly<{ ok: false; problem: VerifyProblem }>

/**
 * The offline verifier: needs the file and the verifier key that the reader trusts, and no server. Stops at the first error and
 * names it. Streams: holds one chunk, one line and the ends of the thought chains.
 */
export async function verifyDocument(input: VerifyInput): Promise<VerifyResult> {
  const verifier = parseVerifierKey(input.key)
  const chunks = input.chunks[Symbol.asyncIterator]()
  try {
    return { ok: true, ...(await verifyByFormat(input, verifier, createDocumentReader(chunks))) }
  } catch (error) {
    if (error instanceof VerifyFailure) return { ok: false, problem: error.problem }
    throw error
  } finally {
    await chunks.return?.()
  }
}

async function verifyByFormat(input: VerifyInput, verifier: NoteVerifier, reader: DocumentReader): Promise<Verified> {
  const options = { ...input, verifier }
  const document = await readFirstObject(reader)
  switch (document['format']) {
    case EXPORT_FORMAT:
      return verifyExport(document, reader, options)
    case PROOF_FORMAT:
      await expectEnd(reader)
      return verifyProofDocument(document, options)
    case CONSISTENCY_FORMAT:
      await expectEnd(reader)
      return verifyConsistencyDocument(document, options)
    default:
      return fail('format', 'The file is not a log export, a proof or a consistency proof of a known version.', {
        line: 1,
        field: 'format',
        expected: [EXPORT_FORMAT, PROOF_FORMAT, CONSISTENCY_FORMAT],
        actual: document['format'],
      })
  }
}
