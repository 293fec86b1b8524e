import type { ToolDefinition } from '../runtime/define-tool.ts'
import aegisAgentWait from './aegis-agent-wait.ts'
import aegisTaskCancel from './aegis-task-cancel.ts'
import aegisTaskExecute from './aegis-task-execute.ts'
import aegisTaskList from './aegis-task-list.ts'
import aegisTaskLogs from './aegis-task-logs.ts'
import aegisTaskRemove from './aegis-task-remove.ts'
import aegisTaskStatus from './aegis-task-status.ts'
import aegisTaskWait from './aegis-task-wait.ts'
import executionFileRead from './execution-file-read.ts'
import executionFork from './execution-fork.ts'
import executionReplay from './execution-replay.ts'

export const executionTools: readonly ToolDefinition[] = [
  aegisAgentWait,
  aegisTaskCancel,
  aegisTaskExecute,
  aegisTaskList,
  aegisTaskLogs,
  aegisTaskRemove,
  aegisTaskStatus,
  aegisTaskWait,
  executionFileRead,
  executionFork,
  executionReplay,
]
