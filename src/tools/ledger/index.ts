import type { ToolDefinition } from '../runtime/define-tool.ts'
import auditSessionStart from './audit-session-start.ts'
import auditVerifyChain from './audit-verify-chain.ts'
import merkleFinalize from './merkle-finalize.ts'
import merkleRoot from './merkle-root.ts'
import projectCreate from './project-create.ts'
import projectList from './project-list.ts'
import skillList from './skill-list.ts'
import taskCreate from './task-create.ts'
import taskGet from './task-get.ts'
import taskList from './task-list.ts'
import taskNextActions from './task-next-actions.ts'
import taskUpdate from './task-update.ts'
import thoughtRecord from './thought-record.ts'
import thoughtRecordList from './thought-record-list.ts'

export const ledgerTools: readonly ToolDefinition[] = [
  auditSessionStart,
  auditVerifyChain,
  merkleFinalize,
  merkleRoot,
  projectCreate,
  projectList,
  skillList,
  taskCreate,
  taskGet,
  taskList,
  taskNextActions,
  taskUpdate,
  thoughtRecordList,
  thoughtRecord,
]
