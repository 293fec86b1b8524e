/**
 * The files that leave the server and are verified without it. Export: JSON lines. Line 1 is the header; line i + 2 is entry i,
 * its canonical record text verbatim. Every line ends with a line feed. Proof and consistency documents are one JSON object each.
 */
export const EXPORT_FORMAT = 'castellan-log-export/1'
export const PROOF_FORMAT = 'castellan-log-proof/1'
export const CONSISTENCY_FORMAT = 'castellan-log-consistency/1'

type ExportHeader = Readonly<{
  format: typeof EXPORT_FORMAT
  origin: string
  tenant: string
  size: number
  /** The signed note over `size` and the root of exactly these entries. */
  checkpoint: string
  /** The verifier key the server claims. A reader must compare it with the key it trusts. */
  key: string
}>

type ProofDocument = Readonly<{
  format: typeof PROOF_FORMAT
  checkpoint: string
  key: string
  index: number
  size: number
  record: string
  hashes: readonly string[]
}>

type ConsistencyDocument = Readonly<{
  format: typeof CONSISTENCY_FORMAT
  old: string
  new: string
  key: string
  hashes: readonly string[]
}>

type ExportHeaderInput = Readonly<{
  origin: string
  tenant: string
  size: number
  checkpoint: string
  verifierKey: string
}>

/** The first line of an export, line feed included. */
export function exportHeaderLine({ origin, tenant, size, checkpoint, verifierKey }: ExportHeaderInput): string {
  const header: ExportHeader = { format: EXPORT_FORMAT, origin, tenant, size, checkpoint, key: verifierKey }
  return `${JSON.stringify(header)}\n`
}

/** The line of one entry, line feed included. A canonical record never contains a line feed. */
export const exportRecordLine = (record: string): string => `${record}\n`

type ProofDocumentInput = Readonly<{
  checkpoint: string
  verifierKey: string
  index: number
  size: number
  record: string
  proof: readonly Buffer[]
}>

export function proofDocument(input: ProofDocumentInput): ProofDocument {
  const { checkpoint, verifierKey, index, size, record, proof } = input
  return { format: PROOF_FORMAT, checkpoint, key: verifierKey, index, size, record, hashes: hexOf(proof) }
}

type ConsistencyDocumentInput = Readonly<{
  oldCheckpoint: string
  newCheckpoint: string
  verifierKey: string
  proof: readonly Buffer[]
}>

export function consistencyDocument(input: ConsistencyDocumentInput): ConsistencyDocument {
  const { oldCheckpoint, newCheckpoint, verifierKey, proof } = input
  return { format: CONSISTENCY_FORMAT, old: oldCheckpoint, new: newCheckpoint, key: verifierKey, hashes: hexOf(proof) }
}

const hexOf = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString('hex'))
