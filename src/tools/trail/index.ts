import type { ToolDefinition } from '../runtime/define-tool.ts'
import auditSessionStart from './audit-session-start.ts'
import auditVerifyChain from './audit-verify-chain.ts'
import merkleFinalize from './merkle-finalize.ts'
import merkleRoot from './merkle-root.ts'
import thoughtRecord from './thought-record.ts'
import thoughtRecordList from './thought-record-list.ts'

export const trailTools: readonly ToolDefinition[] = [
  auditSessionStart,
  auditVerifyChain,
  merkleFinalize,
  merkleRoot,
  thoughtRecordList,
  thoughtRecord,
]
