//! Random commands about variables and root keys.

use songline_commands::{ApplyVariable, Command, DeleteRootKey, UpsertRootKey};
use songline_model::{
    ROOT_KEY_ALGORITHM, RootKeyId, RootKeyMeta, RootKeyState, Sealed, Str, Time, Variable, VariableData, VariableKey,
    VariableMetadata, VariableOp, WrappedKey,
};

use super::Dice;
use crate::State;

impl Dice {
    fn root_key(&mut self) -> RootKeyId {
        RootKeyId::from_bytes(self.bytes('k', 4))
    }

    pub(super) fn about_secrets(&mut self, state: &State) -> Command {
        match self.below(8) {
            0 | 1 => {
                let state = self.pick(RootKeyState::ALL);
                let meta = RootKeyMeta {
                    key_id: self.root_key(),
                    algorithm: ROOT_KEY_ALGORITHM.into(),
                    state,
                    ..RootKeyMeta::default()
                };
                let wrapped = WrappedKey { wrapped_by: "kek".into(), material: Sealed(vec![1; 60]) };
                UpsertRootKey { meta, wrapped, rekey: self.chance(30) }.into()
            }
            2 => DeleteRootKey { key_id: self.root_key(), unused_only: self.chance(50) }.into(),
            _ => self.variable(state).into(),
        }
    }

    fn variable(&mut self, state: &State) -> ApplyVariable {
        let key = VariableKey::new(self.pick(&["default", "dev"]), Str::from(format!("p{}", self.below(5))));
        let known = state.variable(&key).map_or(0, |row| row.meta.modify_index);
        let modify_index = if self.chance(70) { known } else { self.below(20) };
        let meta = VariableMetadata {
            namespace: key.namespace,
            path: key.path,
            modify_index,
            modify_time: Time::from_nanos(3),
            ..VariableMetadata::default()
        };
        let data = Sealed(vec![2; self.below(100) as usize]);
        // With an existing key, mostly: any other is refused.
        let key_id =
            state.active_root_key().filter(|_| self.chance(90)).map_or_else(|| self.root_key(), |row| row.meta.key_id);
        ApplyVariable {
            op: self.pick(VariableOp::ALL),
            var: Variable { meta, encrypted: VariableData { data, key_id } },
        }
    }
}
