import type { ToolDefinition } from '../runtime/define-tool.ts'
import projectCreate from './project-create.ts'
import projectList from './project-list.ts'
import taskCreate from './task-create.ts'
import taskGet from './task-get.ts'
import taskList from './task-list.ts'
import taskNextActions from './task-next-actions.ts'
import taskUpdate from './task-update.ts'

export const taskTools: readonly ToolDefinition[] = [
  projectCreate,
  projectList,
  taskCreate,
  taskGet,
  taskList,
  taskNextActions,
  taskUpdate,
]
