import type { ToolDefinition } from '../runtime/define-tool.ts'
import execTool from './exec.ts'
import execBackground from './exec-background.ts'
import execParallel from './exec-parallel.ts'
import fileEdit from './file-edit.ts'
import fileList from './file-list.ts'
import fileRead from './file-read.ts'
import fileTransfer from './file-transfer.ts'
import fileWrite from './file-write.ts'
import gitClone from './git-clone.ts'
import gitCommit from './git-commit.ts'
import gitDiff from './git-diff.ts'
import gitPush from './git-push.ts'
import gitStatus from './git-status.ts'
import networkPolicy from './network-policy.ts'
import portForward from './port-forward.ts'
import setEnv from './set-env.ts'
import snapshotTool from './snapshot.ts'
import swarmRun from './swarm-run.ts'
import workspaceAdopt from './workspace-adopt.ts'
import workspaceCreate from './workspace-create.ts'
import workspaceDestroy from './workspace-destroy.ts'
import workspaceFork from './workspace-fork.ts'
import workspaceInfo from './workspace-info.ts'
import workspaceList from './workspace-list.ts'
import workspaceLogs from './workspace-logs.ts'
import workspaceMerge from './workspace-merge.ts'
import workspacePrepare from './workspace-prepare.ts'
import workspaceResize from './workspace-resize.ts'
import workspaceStart from './workspace-start.ts'
import workspaceStop from './workspace-stop.ts'

export const workspaceTools: readonly ToolDefinition[] = [
  workspaceCreate,
  workspaceDestroy,
  workspaceStart,
  workspaceStop,
  workspaceResize,
  workspaceList,
  workspaceInfo,
  execTool,
  execBackground,
  setEnv,
  execParallel,
  fileWrite,
  fileRead,
  fileEdit,
  fileList,
  fileTransfer,
  snapshotTool,
  workspaceFork,
  portForward,
  networkPolicy,
  workspaceAdopt,
  gitClone,
  gitStatus,
  gitCommit,
  gitPush,
  gitDiff,
  workspaceMerge,
  workspacePrepare,
  swarmRun,
  workspaceLogs,
]
