import type { ToolDefinition } from '../runtime/define-tool.ts'
import fsCreateDir from './fs-create-dir.ts'
import fsCreateDirAlias from './fs-create-dir-alias.ts'
import fsDelete from './fs-delete.ts'
import fsEdit from './fs-edit.ts'
import fsGlob from './fs-glob.ts'
import fsGrep from './fs-grep.ts'
import fsList from './fs-list.ts'
import fsMultiEdit from './fs-multi-edit.ts'
import fsRead from './fs-read.ts'
import fsWrite from './fs-write.ts'

export const fileTools: readonly ToolDefinition[] = [
  fsRead,
  fsWrite,
  fsList,
  fsCreateDir,
  fsCreateDirAlias,
  fsDelete,
  fsEdit,
  fsMultiEdit,
  fsGrep,
  fsGlob,
]
