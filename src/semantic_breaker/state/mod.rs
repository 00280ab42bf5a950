//! The state machine of one circuit for one key: event and instant in, decision out.
//!
//! No lock, no clock and no I/O: [`decide`](super::decide) asks it and tells it. A healthy key has no [`Cell`] at all;
//! one is made by the first result that [`needs_cell`].

mod cell;
mod cooldown;
mod event;
mod evidence;
mod gate;
mod health;
mod lease;
mod operate;
mod pending;
mod time;
mod window;

#[cfg(test)]
mod model;
#[cfg(test)]
mod model_events;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub(super) use self::{
    cell::Cell,
    event::{Admit, Ask, Changes, LeaseId, Moment, Settled},
    evidence::needs_cell,
};
#[cfg(test)]
use super::{TripCard, rows::*, words::*};
use super::{config, rows, words};
#[cfg(test)]
use crate::error::Refusal;
