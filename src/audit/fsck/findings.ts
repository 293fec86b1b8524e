import type { FsckTable } from './source.ts'

/** What can be wrong, by name. The names are public: scripts match on them. */
export const fsckRules = {
  'log.seq': 'Entries are numbered from 0 without a gap, in order.',
  'log.record-json': 'A record is JSON.',
  'log.record-canonical': 'A record is in RFC 8785 form.',
  'log.record-shape': 'A record has the fields of its version.',
  'log.record-tenant': 'A record names the tenant of its log.',
  'log.call-id': 'A call is recorded once.',
  'log.nodes': 'The stored tree nodes are the hashes of the record and of the subtrees it completes.',
  'log.at': 'The time column is that of the record.',
  'log.subject': 'The subject column is that of the record.',
  'log.record-hash': 'The hash column is that of the record.',
  'head.missing': 'A log has a head.',
  'head.size': 'The head counts the entries.',
  'head.peaks': 'The head holds the hashes of the perfect subtrees.',
  'head.counter': 'The head counts what the log has made.',
  'head.trail': 'The head says up to which entry the trail index goes, and the index has every trail record before it.',
  'checkpoint.missing': 'A checkpoint that was kept beside the store is still there.',
  'checkpoint.note': 'A stored checkpoint is a signed note.',
  'checkpoint.signature': 'A stored checkpoint is signed by the key of the log.',
  'checkpoint.origin': 'A stored checkpoint names its log and the tenant.',
  'checkpoint.ahead': 'A checkpoint covers no more entries than there are: otherwise the tail was cut.',
  'checkpoint.root': 'The entries a checkpoint covers are still those it was signed over.',
  'identity.missing': 'A store says whose log it has, once a key was made for it.',
  'identity.log-id': 'The name of the log is that of its key.',
  'identity.key': 'The key of the log is the one beside the store.',
  'effect.shape': 'An effect has a kind, a body and the key of what it changes.',
  'effect.field': 'The body of an effect has the fields of its kind.',
  'effect.hash': 'The hash of an effect is that of its body.',
  'effect.subject': 'An effect on a task has that task as its subject.',
  'id.form': 'An id is its letter, a dash and a number of four digits or more.',
  'id.gap': 'Ids are numbered from 1 without a gap, in the order of the log.',
  'project.sequence': 'Tasks of a project are numbered from 1 without a gap.',
  'fold.created-twice': 'Nothing is created twice.',
  'fold.unknown-row': 'Only what exists is changed.',
  'fold.unknown-reference': 'What an effect refers to exists.',
  'fold.previous-status': 'A task changes from the status it had.',
  'fold.finalized-twice': 'A session is finalized once.',
  'session.range': 'A session begins and ends at the entries that say so.',
  'session.tree': 'A finalized session has the tree over the trail records it covers.',
  'thought.hash': 'The hash of a thought is that of its six fields.',
  'thought.link': 'A thought names the hash of the thought before it on the same task.',
  'thought.position': 'Thoughts of a task are numbered from 1 without a gap.',
  'run.sequence': 'Rows of the journal of a run are numbered from 1 without a gap.',
  'run.ended': 'A run that has ended changes no more.',
  'run.journal': 'The journal of a run has the rows that the log has the digests of.',
  'row.missing': 'What the log has made is in its table.',
  'row.extra': 'What is in a table was made by the log.',
  'row.field': 'A row is as the log has left it.',
} as const
export type FsckRule = keyof typeof fsckRules

export type FsckFinding = Readonly<{
  tenant: string
  table: FsckTable
  /** The key of the row: a seq, an id or a name. */
  row: string
  rule: FsckRule
  field?: string
  expected?: unknown
  actual?: unknown
  message: string
}>

export type FindingInput = Readonly<Omit<FsckFinding, 'tenant' | 'message'> & { detail?: string }>
export type ReportFinding = (finding: FindingInput) => void

type FindingList = Readonly<{
  forTenant(tenant: string): ReportFinding
  retained(): readonly FsckFinding[]
  /** All findings, including those beyond the stored number. */
  count(): number
}>

export function createFindingList(retainedMax: number): FindingList {
  const findings: FsckFinding[] = []
  let count = 0
  return {
    forTenant: (tenant) => (finding) => {
      count++
      if (findings.length >= retainedMax) return
      const { detail, ...rest } = finding
      const location = `${finding.table} ${finding.row}${finding.field === undefined ? '' : `, ${finding.field}`}`
      const message = `${location}: ${fsckRules[finding.rule]}${detail === undefined ? '' : ` ${detail}`}`
      findings.push({ tenant, ...rest, message })
    },
    retained: () => findings,
    count: () => count,
  }
}
