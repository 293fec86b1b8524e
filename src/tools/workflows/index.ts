import type { ToolDefinition } from '../runtime/define-tool.ts'
import cancelWorkflow from './aegis-workflow-cancel.ts'
import createWorkflow from './aegis-workflow-create.ts'
import deleteWorkflow from './aegis-workflow-delete.ts'
import demoteWorkflow from './aegis-workflow-demote.ts'
import executionsGetWorkflow from './aegis-workflow-executions-get.ts'
import executionsListWorkflow from './aegis-workflow-executions-list.ts'
import exportWorkflow from './aegis-workflow-export.ts'
import generateWorkflow from './aegis-workflow-generate.ts'
import listWorkflow from './aegis-workflow-list.ts'
import logsWorkflow from './aegis-workflow-logs.ts'
import promoteWorkflow from './aegis-workflow-promote.ts'
import removeWorkflow from './aegis-workflow-remove.ts'
import runWorkflow from './aegis-workflow-run.ts'
import searchWorkflow from './aegis-workflow-search.ts'
import signalWorkflow from './aegis-workflow-signal.ts'
import statusWorkflow from './aegis-workflow-status.ts'
import updateWorkflow from './aegis-workflow-update.ts'
import validateWorkflow from './aegis-workflow-validate.ts'
import waitWorkflow from './aegis-workflow-wait.ts'
import workflowInfo from './workflow-info.ts'

export const workflowTools: readonly ToolDefinition[] = [
  createWorkflow,
  generateWorkflow,
  listWorkflow,
  validateWorkflow,
  updateWorkflow,
  exportWorkflow,
  deleteWorkflow,
  runWorkflow,
  logsWorkflow,
  waitWorkflow,
  cancelWorkflow,
  signalWorkflow,
  removeWorkflow,
  promoteWorkflow,
  demoteWorkflow,
  executionsListWorkflow,
  executionsGetWorkflow,
  statusWorkflow,
  searchWorkflow,
  workflowInfo,
]
