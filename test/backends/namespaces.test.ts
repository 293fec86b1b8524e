import { openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { describeBackend, hostImageOfOneId } from './backend-suite.ts'

describeBackend('namespaces, with the privileges that the tests have', () => openNamespacesBackend())
describeBackend('namespaces, with plain folders as the store', () => openNamespacesBackend({ storeGb: 0 }))
describeBackend('namespaces, without packages', () => openNamespacesBackend({ withoutPackages: true }))
describeBackend('namespaces, as an ordinary user with subordinate ids', () => openUserBackend({ subordinateIds: true }))
describeBackend(
  'namespaces, as an ordinary user with one id',
  () => openUserBackend({ subordinateIds: false }),
  hostImageOfOneId,
)
describeBackend(
  'namespaces, as an ordinary user without packages',
  () => openUserBackend({ subordinateIds: true, withoutPackages: true, withoutTun: true }),
  hostImageOfOneId,
)
