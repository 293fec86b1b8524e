import type { ToolDefinition } from '../runtime/define-tool.ts'
import approvalAnswer from './approval-answer.ts'
import approvalGet from './approval-get.ts'
import approvalList from './approval-list.ts'

export const approvalTools: readonly ToolDefinition[] = [approvalAnswer, approvalGet, approvalList]
