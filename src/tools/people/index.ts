import type { ToolDefinition } from '../runtime/define-tool.ts'
import invitationAccept from './invitation-accept.ts'
import invitationCancel from './invitation-cancel.ts'
import invitationCreate from './invitation-create.ts'
import invitationList from './invitation-list.ts'
import oauthClientCreate from './oauth-client-create.ts'
import oauthClientDelete from './oauth-client-delete.ts'
import oauthClientList from './oauth-client-list.ts'
import signInList from './sign-in-list.ts'
import userAdmit from './user-admit.ts'
import userCreate from './user-create.ts'
import userDelete from './user-delete.ts'
import userList from './user-list.ts'
import userSessionList from './user-session-list.ts'
import userSessionRevoke from './user-session-revoke.ts'
import userTeamCreate from './user-team-create.ts'
import userTeamDelete from './user-team-delete.ts'
import userTeamList from './user-team-list.ts'
import userTeamUpdate from './user-team-update.ts'
import userUpdate from './user-update.ts'

export const peopleTools: readonly ToolDefinition[] = [
  invitationAccept,
  invitationCancel,
  invitationCreate,
  invitationList,
  oauthClientCreate,
  oauthClientDelete,
  oauthClientList,
  signInList,
  userAdmit,
  userCreate,
  userDelete,
  userList,
  userSessionList,
  userSessionRevoke,
  userTeamCreate,
  userTeamDelete,
  userTeamList,
  userTeamUpdate,
  userUpdate,
]
