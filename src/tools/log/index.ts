import type { ToolDefinition } from '../runtime/define-tool.ts'
import logCheckpoint from './log-checkpoint.ts'
import logConsistencyProof from './log-consistency-proof.ts'
import logExport from './log-export.ts'
import logInclusionProof from './log-inclusion-proof.ts'
import logRecover from './log-recover.ts'

export const logTools: readonly ToolDefinition[] = [
  logCheckpoint,
  logConsistencyProof,
  logExport,
  logInclusionProof,
  logRecover,
]
