import { LOCAL_OWNER, userIdOf } from '../../contract/principal.ts'
import type { Subjects } from '../../contract/upstream-tools.ts'
import { type AssignmentDeps, createToolAssignments, type ToolAssignments } from '../../domains/gateways/assignments.ts'
import { grantedBy } from '../../domains/identity/roles.ts'
import { exchangeProblem } from '../../domains/mcp-servers/exchanged-credentials.ts'
import { sqlAssignmentStore } from '../../stores/sql/assignment-store.ts'
import { sqlMcpServerStore } from '../../stores/sql/mcp-server-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlRoleStore } from '../../stores/sql/role-store.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'

type ToolAssignmentParts = Readonly<{
  subjects: Pick<Subjects, 'sourceAt'>
  views: Pick<ToolViews, 'own'>
  noteChange: AssignmentDeps['noteChange']
}>

/** The tools of gateways and agents; agents and gateways are opened by different service groups but share one table. */
export const openToolAssignments = ({ views, subjects, noteChange }: ToolAssignmentParts): ToolAssignments =>
  createToolAssignments({
    store: sqlAssignmentStore,
    servers: sqlMcpServerStore,
    ownTools: {
      nameOf: (toolId) => views.own.find(toolId)?.name,
      describe: (_principal, names) =>
        names.map((name) => {
          const description = views.own.find(name)?.definition.description ?? null
          return { id: name, name, description, catalogId: null }
        }),
    },
    async membershipOf(read, tenant, identity) {
      const userId = userIdOf(identity)
      // Keys and the local owner count as members: what belongs to a key ends with it.
      if (userId === undefined) return { isMember: true, isAdmin: identity === LOCAL_OWNER, teams: [] }
      const user = await sqlPeopleStore.findUser(read, tenant, userId)
      if (user === undefined) return { isMember: false, isAdmin: false, teams: [] }
      const granted = await grantedBy(sqlRoleStore, read, tenant, user.role)
      const isAdmin = granted.has('mcpServerInstallation:admin')
      return { isMember: true, isAdmin, teams: await sqlPeopleStore.teamsOf(read, userId) }
    },
    exchangeProblem: (item) => exchangeProblem(item, subjects),
    noteChange,
  })
